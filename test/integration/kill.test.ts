import { readFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../support/eventually.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';

// More rounds find more: ROUNDS=20 npm test -- test/integration/kill
const rounds = Number(process.env['ROUNDS'] ?? 6);
const startsPerRound = 3;
const longestMs = 1_500;

let dataDir: string;
let up: Installation | undefined;

beforeAll(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'conversation-operator-kill-'));
});
afterAll(async () => {
  await up?.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

/** The user's messages that an agent has stored for a conversation, from its files. */
function messagesOf(volume: string, id: string): string[] {
  const events = readFileSync(
    join(dataDir, 'node', 'volumes', volume, '.agent', 'conversations', id, 'events.jsonl'),
    'utf8',
  );
  return events
    .split('\n')
    .filter((line) => line.includes('"MessageEvent"') && line.includes('"source":"user"'));
}

it(`loses nothing and does nothing twice when it is killed at ${rounds} random moments of a start`, async () => {
  const accepted = new Set<string>();
  const moments: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const running = (up = await Installation.start({ dataDir }));
    const moment = Math.round(Math.random() * longestMs);
    moments.push(moment);
    const calls = Array.from({ length: startsPerRound }, async () => {
      try {
        accepted.add((await running.start('```sh\necho once >> once.txt\n```')).id);
      } catch {
        // Killed before it had answered: not accepted.
      }
    });
    // One start at least is accepted, however slow the machine is.
    if (round === 0) await Promise.race(calls);
    await new Promise((resolve) => setTimeout(resolve, moment));
    await running.kill();
    await Promise.all(calls);
  }
  const orphans = up?.agentProcesses() ?? [];
  const running = (up = await Installation.start({ dataDir }));
  // All of them are to run at the end, more than the quota of an installation lets at once.
  const everybody = JSON.stringify({ spec: { limit: 1000 } });
  await kubectl(running.kubeconfig, [
    'patch',
    'conversationquota',
    'default',
    '--type',
    'merge',
    '-p',
    everybody,
  ]);
  const alive = new Set(running.agentProcesses());
  expect(orphans.filter((pid) => alive.has(pid))).toEqual([]);
  expect(accepted.size).toBeGreaterThan(0);

  const problems: string[] = [];
  for (const id of accepted) {
    const start = await running.over(id);
    if (start.status === 'ERROR')
      problems.push(`${id}: ${start.error ?? ''} (killed after ${moments.join(', ')} ms)`);
    else {
      const conversation = start.app_conversation_id ?? '';
      const { execution_status_detail: detail } = await eventually(
        'the end of its run',
        async () => {
          const record = await running.conversation(conversation);
          return ['finished', 'error'].includes(record.execution_status ?? '') && record;
        },
      );
      // Killed in the middle of the command: the run says so.
      if (detail !== null) expect(detail).toMatch(/^BlockLost: /);
      const { stdout: volume } = await kubectl(running.kubeconfig, [
        'get',
        'pvc',
        start.sandbox_id ?? '',
        '-o',
        'jsonpath={.metadata.uid}',
      ]);
      expect(messagesOf(volume, conversation)).toHaveLength(1);
      // An interrupted command is not repeated, so it has run at most once; never twice.
      const file = join(dataDir, 'node', 'volumes', volume, 'project', 'once.txt');
      expect(existsSync(file) ? readFileSync(file, 'utf8') : 'once\n').toBe('once\n');
    }
  }
  expect(problems).toEqual([]);

  const { stdout } = await kubectl(running.kubeconfig, [
    'get',
    'sandboxes',
    '-o',
    'jsonpath={range .items[*]}{.metadata.ownerReferences[0].name}{"\\n"}{end}',
  ]);
  const owners = stdout.trim().split('\n');
  expect(new Set(owners).size).toBe(owners.length);
  const { stdout: podList } = await kubectl(running.kubeconfig, ['get', 'pods', '-o', 'name']);
  const { stdout: sandboxList } = await kubectl(running.kubeconfig, [
    'get',
    'sandboxes',
    '-o',
    'name',
  ]);
  expect(podList.trim().split('\n')).toHaveLength(sandboxList.trim().split('\n').length);
}, 600_000);
