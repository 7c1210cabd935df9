import { timeoutMs } from './seed-ranges.ts';
import { simulate } from './simulation.ts';

interface CountedStart {
  readonly calls: number;
  readonly hasRepository: boolean;
}

/**
 * Requests of the operator for a conversation and its sandbox until the start is READY, from the
 * lines of a run. Left out: starts that wait for the quota or lose a sandbox, starts in the sandbox
 * of another conversation, and the Events, for which no start waits.
 */
function startsOf(lines: readonly string[]): readonly CountedStart[] {
  const ids = new Set(
    lines.flatMap(
      (line) => /gateway wrote conversations\/([0-9a-f]{32}) v\d+ ADDED/.exec(line)?.[1] ?? [],
    ),
  );
  return [...ids].flatMap((id) => {
    const added = lines.findIndex((line) => line.includes(`gateway wrote conversations/${id} v`));
    const ready = lines.findIndex(
      (line) => line.includes(`conversations/${id} v`) && line.includes('"status":"READY"'),
    );
    if (ready < 0) return [];
    const start = lines.slice(added, ready).filter((line) => line.includes(id));
    const pods = start.filter((line) => /operator-\d\.\d+ wrote pods\/\S+ v\d+ ADDED/.test(line));
    if (pods.length !== 1 || start.some((line) => line.includes('WaitingForQuota'))) return [];
    // The path of a creation lacks the name of the object.
    const calls = start.filter((line) =>
      /operator-\d\.\d+(#\d+ (GET|PUT|PATCH|DELETE) \S+ sends| wrote (?!events)\S+ v\d+ ADDED)/.test(
        line,
      ),
    ).length;
    return [{ calls, hasRepository: start[0]?.includes('"repository"') === true }];
  });
}

it(
  'a start costs few requests to the API server when nothing goes wrong',
  async () => {
    const starts: CountedStart[] = [];
    for (let seed = 1; seed <= 15; seed++) {
      const { lines, failure } = await simulate({
        seed,
        faults: 'none',
        keepLines: 1e6,
        world: 'plain',
      });
      expect(failure).toBeUndefined();
      starts.push(...startsOf(lines));
    }
    const callsOf = (wanted: boolean) =>
      starts
        .filter(({ hasRepository }) => hasRepository === wanted)
        .map(({ calls }) => calls)
        .sort((one, other) => one - other);
    const [plain, withRepository] = [callsOf(false), callsOf(true)];
    expect(plain.length).toBeGreaterThan(10);
    expect(withRepository.length).toBeGreaterThan(10);
    // Five for the sandbox, its name and READY, and a read of the conversation.
    expect(plain[0]).toBe(8);
    expect(plain[Math.floor(plain.length / 2)]).toBeLessThanOrEqual(8);
    // The beginning of the clone and of the set-up as well.
    expect(withRepository[0]).toBe(10);
    expect(withRepository[Math.floor(withRepository.length / 2)]).toBeLessThanOrEqual(10);
    expect(Math.max(...plain, ...withRepository)).toBeLessThanOrEqual(60);
  },
  timeoutMs,
);
