import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { configMaps, leases } from '@conversation-operator/kube/core';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import { runApiServer, type RunningApiServer } from '../support/api-server.ts';
import { eventually } from '../support/eventually.ts';

const script = fileURLToPath(new URL('../support/leader-process.ts', import.meta.url));
const namespace = 'default';
const short = { leaseDurationMs: 2000, renewDeadlineMs: 1200, retryPeriodMs: 200 };
/** No busy machine keeps a process from renewing this one. */
const calm = { leaseDurationMs: 8000, renewDeadlineMs: 7000, retryPeriodMs: 300 };
/** Longer than any test. */
const long = { leaseDurationMs: 600_000, renewDeadlineMs: 500_000, retryPeriodMs: 500 };

/** The writes that the server has stored, in its order: holders of the lease, and writers. */
interface Entry {
  readonly version: number;
  readonly kind: 'holder' | 'writer';
  readonly who: string;
  /** The number of a write among those of its writer. */
  readonly count: string | undefined;
  /** By the clock of this process, when it was heard of. */
  readonly at: number;
}

interface Candidate {
  readonly identity: string;
  readonly process: ChildProcess;
  refusals: number;
  /** By write: its last check before it was handed to a connection, on the monotonic clock. */
  readonly checked: Map<string, bigint>;
  /** The times at which the process was stopped, by the same clock. */
  readonly stops: { readonly from: bigint; readonly to: bigint }[];
}

let stack: AsyncDisposableStack;
let api: RunningApiServer;
let log: Entry[];
let candidates: Candidate[];

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  api = await runApiServer();
  stack.defer(() => api.close());
  log = [];
  candidates = [];
  const { client } = api;
  const ledger = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name: 'ledger' } };
  const { resourceVersion } = (await client.create(configMaps, ledger)).metadata;
  const done = new AbortController();
  const follow = async <T extends KubeObject>(
    resource: ResourceDefinition<T>,
    kind: Entry['kind'],
    whoOf: (object: T) => string | undefined,
    countOf?: (object: T) => string | undefined,
  ) => {
    for await (const event of client.watch(resource, {
      namespace,
      resourceVersion,
      timeoutSeconds: 600,
      signal: done.signal,
    })) {
      if (event.type === 'BOOKMARK') continue;
      const [who = '', count] = [whoOf(event.object), countOf?.(event.object)];
      log.push({
        version: Number(event.object.metadata.resourceVersion),
        kind,
        who,
        count,
        at: performance.now(),
      });
    }
  };
  const following = [
    follow(leases, 'holder', ({ spec }) => spec?.holderIdentity),
    follow(
      configMaps,
      'writer',
      ({ data }) => data?.['writer'],
      ({ data }) => data?.['count'],
    ),
  ].map((promise) => promise.catch(() => undefined));
  stack.defer(async () => {
    done.abort();
    await Promise.all(following);
  });
});
afterEach(() => stack.disposeAsync());

function join(identity: string, times: object): Candidate {
  const child = spawn(
    process.execPath,
    [script, api.server.url, api.token, identity, JSON.stringify(times)],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const candidate: Candidate = {
    identity,
    process: child,
    refusals: 0,
    checked: new Map(),
    stops: [],
  };
  createInterface(child.stdout).on('line', (line) => {
    const [word, count = '', time = ''] = line.split(' ');
    if (word === 'refused') candidate.refusals++;
    else candidate.checked.set(count, BigInt(time));
  });
  stack.defer(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  });
  candidates.push(candidate);
  return candidate;
}

const lastOf = (kind: Entry['kind']): Entry | undefined =>
  log.findLast((entry) => entry.kind === kind);

/** The candidate that holds the lease and writes; never `other`. */
const leader = (other?: Candidate): Promise<Candidate> =>
  eventually('a process leads', () => {
    const who = lastOf('writer')?.who;
    return (
      lastOf('holder')?.who === who &&
      candidates.find((candidate) => candidate.identity === who && candidate !== other)
    );
  });

/** Writes by a process that did not hold the lease, as the server saw it, when the write came. */
function wrongWrites(): Entry[] {
  let holder = '';
  const wrong: Entry[] = [];
  for (const entry of [...log].sort((one, other) => one.version - other.version)) {
    if (entry.kind === 'holder') holder = entry.who;
    else if (entry.who !== holder) wrong.push(entry);
  }
  return wrong;
}

/**
 * Whether the write had been checked, and was stopped on its way to the socket, which takes some
 * ten microseconds: nothing in a process can call such a write back. A write that was checked after
 * its process woke up is none of these.
 */
function wasUnderWay({ who, count = '' }: Entry): boolean {
  const writer = candidates.find(({ identity }) => identity === who);
  const at = writer?.checked.get(count);
  return (
    at !== undefined &&
    writer?.stops.some(({ from, to }) => at > from - 100_000_000n && at < to) === true
  );
}

const takenAt = (who: Candidate): number =>
  log.find((entry) => entry.kind === 'holder' && entry.who === who.identity)?.at ?? Infinity;

describe('of two processes', () => {
  it('the other one leads before the lease is over when the leader is asked to end', async () => {
    join('one', long);
    const first = await leader();
    const second = join('two', long);
    // Long enough for the second process to have read the lease.
    await eventually(
      'the second one waits',
      () => log.filter(({ kind }) => kind === 'holder').length > 2,
    );
    const exited = once(first.process, 'exit');
    first.process.kill('SIGTERM');
    expect((await exited)[0]).toBe(0);
    expect(await leader(first)).toBe(second);
    expect(wrongWrites()).toEqual([]);
  });

  it('a leader that is killed is followed by the other one once its lease is over', async () => {
    join('one', calm);
    const first = await leader();
    const second = join('two', calm);
    await eventually(
      'the lease is renewed',
      () => log.filter(({ kind }) => kind === 'holder').length > 10,
    );
    const killedAt = performance.now();
    first.process.kill('SIGKILL');
    expect(await leader(first)).toBe(second);
    const afterMs = takenAt(second) - killedAt;
    // The lease is over at the earliest a renew deadline before its duration has passed since the
    // kill; a busy machine takes longer.
    expect(afterMs).toBeGreaterThan(calm.leaseDurationMs - calm.renewDeadlineMs);
    expect(wrongWrites()).toEqual([]);
  });

  it('one that was stopped beyond its lease sends nothing after the other one has taken over', async () => {
    join('one', short);
    join('two', short);
    for (let round = 0; round < 4; round++) {
      const paused = await leader();
      // In the midst of whatever it is doing.
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 50));
      const { refusals } = paused;
      const from = process.hrtime.bigint();
      paused.process.kill('SIGSTOP');
      const successor = await leader(paused);
      const writes = log.length;
      await eventually('the new leader writes', () => log.length > writes + 20);
      paused.stops.push({ from, to: process.hrtime.bigint() });
      paused.process.kill('SIGCONT');
      await eventually('the old one tried to write', () => paused.refusals > refusals);
      expect(lastOf('holder')?.who).toBe(successor.identity);
    }
    expect(wrongWrites().filter((entry) => !wasUnderWay(entry))).toEqual([]);
  });
});
