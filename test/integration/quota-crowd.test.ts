import { fork, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { AgentWatch } from '../support/agent-watch.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';
import { SplitInstallation } from '../support/split-installation.ts';

// In full, under every policy: STARTS=60 LIMIT=5 npm test -- test/integration/quota-crowd (8 min)
const inFull = process.env['STARTS'] !== undefined;
const starts = Number(process.env['STARTS'] ?? 12);
const limit = Number(process.env['LIMIT'] ?? 3);
const clients = 4;
const killEveryMs = 2_000;
const maxKills = inFull ? Infinity : 4;
const longestMs = 20_000 * starts;

const client = fileURLToPath(new URL('../support/start-client.ts', import.meta.url));
const listed = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ name: z.string() }),
      status: z
        .object({
          start: z.object({ status: z.string(), error: z.string().optional() }).optional(),
          sandboxStatus: z.string().optional(),
          sandboxStatusReason: z.string().optional(),
          executionStatus: z.string().optional(),
          executionDetail: z.string().optional(),
          interruption: z.looseObject({}).optional(),
          agentEpoch: z.number().optional(),
        })
        .prefault({}),
    }),
  ),
});
type Listed = z.output<typeof listed>['items'][number];

let dataDir: string;
let up: Installation | SplitInstallation;
let children: ChildProcess[];
let accepted: Set<string>;
let watch: AgentWatch | undefined;

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'conversation-operator-crowd-'));
  children = [];
  accepted = new Set();
});
afterEach(async () => {
  watch?.stop();
  for (const child of children) if (child.exitCode === null) child.kill('SIGKILL');
  await up.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

const k = (...args: string[]) => kubectl(up.kubeconfig, args);
const patch = (kind: string, spec: object) =>
  k('patch', kind, 'default', '--type', 'merge', '-p', JSON.stringify({ spec }));

async function conversations(): Promise<readonly Listed[]> {
  const { code, stdout } = await k('get', 'conversations', '-o', 'json');
  return code === 0 ? listed.parse(JSON.parse(stdout)).items : [];
}

/** Whether a run has ended in error, as the operator ends one that loses its container too often. */
const isAbandoned = ({ status }: Listed): boolean => status.executionStatus === 'error';

/** The moments at which an owner pauses one of them. */
const moments = ['WaitingForQuota', 'WaitingForAgent', 'Running', 'Quota'];

/** Conversations that were paused over REST, each at another moment of its life. */
class Pauses {
  readonly ids = new Set<string>();

  async pauseOne(found: readonly Listed[]): Promise<void> {
    const reason = moments[this.ids.size];
    const one = found.find(
      ({ metadata: { name }, status }) =>
        status.sandboxStatusReason === reason &&
        status.executionStatus !== 'finished' &&
        !this.ids.has(name),
    );
    if (one === undefined) return;
    const { name } = one.metadata;
    const headers = { Authorization: `Bearer ${up.key}` };
    const answer = await fetch(`${up.url}/api/v1/sandboxes/sbx-${name}/pause`, {
      method: 'POST',
      headers,
    }).catch(() => undefined);
    if (answer?.status === 200) this.ids.add(name);
  }
}

/** How many messages of its user the agent of each has stored, from the agents' files. */
async function messagesOf(ids: readonly string[]): Promise<readonly number[]> {
  const { stdout } = await k(
    'get',
    'pvc',
    '-o',
    'jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\\n"}{end}',
  );
  const volumes = new Map(stdout.split('\n').map((line) => line.split(' ') as [string, string]));
  return ids.map((id) => {
    const volume = volumes.get(`sbx-${id}`) ?? '';
    const events = readFileSync(
      join(dataDir, 'node', 'volumes', volume, '.agent', 'conversations', id, 'events.jsonl'),
      'utf8',
    );
    return events
      .split('\n')
      .filter((line) => line.includes('"MessageEvent"') && line.includes('"source":"user"')).length;
  });
}

function announce(url: string): void {
  for (const child of children) if (child.connected) child.send({ url });
}

/** The killed processes, which come back: none, all of one machine, or the leading operator. */
type Killed = 'nothing' | 'everything' | 'the operator';

async function open(killed: Killed): Promise<Installation | SplitInstallation> {
  if (killed !== 'the operator') return Installation.start({ dataDir });
  const split = await SplitInstallation.start(dataDir);
  for (const name of ['operator-a', 'operator-b']) split.addOperator(name);
  return split;
}

/** Returns whether a process was there to be killed. */
async function kill(count: number): Promise<boolean> {
  if (up instanceof Installation) {
    await up.kill();
    up = await Installation.start({ dataDir });
    announce(up.url);
    return true;
  }
  const { stdout } = await k(
    'get',
    'lease',
    'conversation-operator',
    '-o',
    'jsonpath={.spec.holderIdentity}',
  );
  const [leader = ''] = stdout.split('_');
  if (!up.hasOperator(leader)) return false;
  await up.killOperator(leader);
  up.addOperator(`operator-${count}`);
  return true;
}

async function crowd(onExceeded: string, killed: Killed): Promise<void> {
  up = await open(killed);
  // Finished conversations make room, else the last ones to come would keep theirs.
  await patch('sandboxtemplate', { idleTimeout: '1s' });
  await patch('conversationquota', { limit, onExceeded });
  watch = new AgentWatch(dataDir);
  for (let index = 0; index < clients; index++) {
    const child = fork(client, [up.key, `client-${index}`, String(starts / clients)]);
    child.on('message', (message) => accepted.add(z.object({ id: z.string() }).parse(message).id));
    children.push(child);
  }
  announce(up.url);

  const pauses = new Pauses();
  const deadline = performance.now() + longestMs;
  let kills = 0;
  let lastKill = performance.now();
  let found: readonly Listed[] = [];
  // A conversation that was just paused still has to become PAUSED.
  const unfinished = () =>
    found.filter((one) =>
      pauses.ids.has(one.metadata.name)
        ? one.status.sandboxStatus !== 'PAUSED'
        : one.status.executionStatus !== 'finished' && !isAbandoned(one),
    );
  while (found.length < starts || accepted.size < starts || unfinished().length > 0) {
    if (performance.now() > deadline)
      throw new Error(`never finished: ${JSON.stringify(unfinished())}`);
    await wait(100);
    found = await conversations();
    await pauses.pauseOne(found);
    if (killed === 'nothing' || kills >= maxKills || performance.now() - lastKill < killEveryMs)
      continue;
    const now = performance.now();
    if (!(await kill(kills))) continue;
    lastKill = now;
    kills++;
  }

  expect(found.map(({ metadata }) => metadata.name).sort()).toEqual([...accepted].sort());
  expect(watch.stop().most).toBe(limit);
  expect(kills > 0).toBe(killed !== 'nothing');
  const paused = found.filter(({ metadata }) => pauses.ids.has(metadata.name));
  expect(
    paused.map(({ status }) => `${status.sandboxStatus ?? ''} ${status.sandboxStatusReason ?? ''}`),
  ).toEqual(paused.map(() => 'PAUSED User'));
  const finished = found
    .filter(({ status }) => status.executionStatus === 'finished')
    .map(({ metadata }) => metadata.name);
  const abandoned = found.filter(isAbandoned);
  for (const { metadata, status } of abandoned)
    process.stderr.write(`${metadata.name} ended in error: ${JSON.stringify(status)}\n`);
  // A run that is slow enough to be killed three times is abandoned. Few are that slow.
  expect(abandoned.length).toBeLessThanOrEqual(limit);
  expect(finished.length + abandoned.length).toBeGreaterThanOrEqual(starts - moments.length);
  expect(await messagesOf(finished)).toEqual(finished.map(() => 1));
}

const cases: [Killed, string][] = (['nothing', 'everything', 'the operator'] as const).flatMap(
  (killed) =>
    ['PauseOldest', 'PauseLongestIdle', 'Queue'].map((policy): [Killed, string] => [
      killed,
      policy,
    ]),
);
const few: typeof cases = [
  ['everything', 'PauseOldest'],
  ['the operator', 'Queue'],
];

it.each(inFull ? cases : few)(
  `gives ${starts} starts of one owner their turn under a limit of ${limit} while %s is killed every ${killEveryMs} ms, with the policy %s`,
  (killed, policy) => crowd(policy, killed),
  longestMs + 60_000,
);
