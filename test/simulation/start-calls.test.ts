import { simulate } from './simulation.ts';

/**
 * Requests of the operator about one conversation until it is READY, from the lines of a run: all
 * but those about its lease.
 */
function callsOfStarts(lines: readonly string[]): readonly number[] {
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
    const start = lines.slice(added, ready);
    if (start.some((line) => line.includes('WaitingForQuota') && line.includes(id))) return [];
    return [
      start.filter(
        (line) =>
          /operator-\d\.\d+#\d+ (GET|POST|PUT|PATCH|DELETE) \S+ sends/.test(line) &&
          line.includes(id),
      ).length,
    ];
  });
}

it('a start costs few requests to the API server when nothing goes wrong', async () => {
  const calls: number[] = [];
  for (let seed = 1; seed <= 15; seed++) {
    const { lines, failure } = await simulate({
      seed,
      faults: 'none',
      keepLines: 1e6,
      world: 'plain',
    });
    expect(failure).toBeUndefined();
    calls.push(...callsOfStarts(lines));
  }
  calls.sort((one, other) => one - other);
  expect(calls.length).toBeGreaterThan(20);
  expect(calls[Math.floor(calls.length / 2)]).toBeLessThanOrEqual(9);
  expect(calls.at(-1)).toBeLessThanOrEqual(60);
}, 120_000);
