import { sleep } from '@conversation-operator/base/clock';
import { fenced } from '../src/intercepted-client.ts';
import { LeaderElection, NotLeadingError } from '../src/leader-election.ts';
import type { LeaderElectionOptions } from '../src/leader-election.ts';
import { silentLogger } from '@conversation-operator/base/logger';
import { VirtualClock } from '../../../test/support/virtual-clock.ts';
import { LeaseServer, ProcessClock, noFaults, type NetworkFaults } from './lease-server.ts';
import { things } from './things.ts';

interface Candidate {
  readonly identity: string;
  readonly clock: ProcessClock;
  readonly election: LeaderElection;
  readonly network: { faults: NetworkFaults };
  readonly stop: () => Promise<void>;
  /** The events of this candidate, each with its time. */
  readonly log: string[];
}

const allLost: NetworkFaults = { delayMs: () => 1, lost: () => true };

function aWorld() {
  const clock = new VirtualClock();
  const server = new LeaseServer(clock);
  const join = (identity: string, options: Partial<LeaderElectionOptions> = {}): Candidate => {
    const log: string[] = [];
    const own = new ProcessClock(clock);
    const network = { faults: noFaults };
    const election = new LeaderElection({
      client: server.clientOf(identity, own, network),
      namespace: 'system',
      name: 'operator',
      identity,
      clock: own,
      random: () => 0.5,
      logger: silentLogger,
      onStartedLeading: (signal) => {
        log.push(`started ${clock.monotonic()}`);
        signal.addEventListener('abort', () => log.push(`asked to end ${clock.monotonic()}`));
      },
      onStoppedLeading: () => log.push(`stopped ${clock.monotonic()}`),
      ...options,
    });
    const abort = new AbortController();
    const running = (async () => {
      while (!abort.signal.aborted) await election.run(abort.signal);
    })();
    const stop = async () => {
      abort.abort(new Error('shut down'));
      await clock.run(running);
    };
    return { identity, clock: own, election, network, stop, log };
  };
  return { clock, server, join };
}

describe('LeaderElection', () => {
  it('makes the first candidate the leader and renews its lease', async () => {
    const { clock, server, join } = aWorld();
    const one = join('one');
    await clock.advance(100);
    expect(one.election.isLeading).toBe(true);
    expect(server.lease?.spec).toEqual({
      holderIdentity: 'one',
      leaseDurationSeconds: 15,
      acquireTime: '2030-01-01T00:00:00.002000Z',
      renewTime: '2030-01-01T00:00:00.002000Z',
      leaseTransitions: 0,
    });
    await clock.advance(60_000);
    expect(one.election.isLeading).toBe(true);
    expect(server.lease?.spec).toMatchObject({
      acquireTime: '2030-01-01T00:00:00.002000Z',
      leaseTransitions: 0,
    });
    await one.stop();
    expect(one.log).toEqual(['started 4', 'asked to end 60100', 'stopped 60100']);
  });

  it('gives the lease away on shutdown, so that another one need not wait', async () => {
    const { clock, server, join } = aWorld();
    const one = join('one');
    await clock.advance(100);
    const two = join('two');
    await clock.advance(10_000);
    expect(two.election.isLeading).toBe(false);
    await one.stop();
    expect(server.lease?.spec).toMatchObject({ holderIdentity: '', leaseDurationSeconds: 1 });
    await clock.advance(1100);
    expect(two.election.isLeading).toBe(true);
    expect(server.lease?.spec).toMatchObject({ holderIdentity: 'two', leaseTransitions: 1 });
    await two.stop();
  });

  it('keeps the lease until its work has ended', async () => {
    const { clock, join } = aWorld();
    const one = join('one', {
      onStartedLeading: async (signal) => {
        await sleep(clock, 1e9, signal).catch(() => undefined);
        await sleep(clock, 30_000);
      },
    });
    await clock.advance(100);
    const two = join('two');
    const stopped = one.stop();
    await clock.advance(29_000);
    expect({ one: one.election.isLeading, two: two.election.isLeading }).toEqual({
      one: true,
      two: false,
    });
    await stopped;
    await clock.advance(5000);
    expect({ one: one.election.isLeading, two: two.election.isLeading }).toEqual({
      one: false,
      two: true,
    });
    await two.stop();
  });

  it('ends its leading before its renew deadline when it loses its connection, and another one waits out the lease', async () => {
    const { clock, join } = aWorld();
    const one = join('one');
    const two = join('two');
    await clock.advance(20_000);
    one.network.faults = allLost;
    const lostAt = clock.monotonic();
    await clock.runUntil(() => !one.election.isLeading);
    const endedAfter = clock.monotonic() - lostAt;
    expect(endedAfter).toBeGreaterThan(7000);
    expect(endedAfter).toBeLessThanOrEqual(10_000);
    await clock.runUntil(() => two.election.isLeading);
    expect(clock.monotonic() - lostAt).toBeGreaterThan(endedAfter + 5000);
    expect(one.log).toContain(`asked to end ${lostAt + endedAfter}`);
    await two.stop();
    await one.stop();
  });

  it('counts its time from when it sent a renewal, not from when the answer came', async () => {
    const { clock, join } = aWorld();
    const one = join('one');
    await clock.advance(100);
    let messages = 0;
    // The next renewal is answered after four seconds, and then nothing any more.
    one.network.faults = { delayMs: () => (messages === 2 ? 4000 : 1), lost: () => ++messages > 2 };
    await clock.runUntil(() => !one.election.isLeading);
    // Sent at 2004.
    expect(clock.monotonic()).toBe(12_004);
    await one.stop();
  });

  it('never takes a lease by what its times say, however far apart the clocks are', async () => {
    const { clock, join } = aWorld();
    const one = join('one');
    await clock.advance(100);
    clock.jumpWallClock(3_600_000);
    const two = join('two');
    await clock.advance(60_000);
    clock.jumpWallClock(-7_200_000);
    await clock.advance(60_000);
    expect({ one: one.election.isLeading, two: two.election.isLeading }).toEqual({
      one: true,
      two: false,
    });
    await two.stop();
    await one.stop();
  });

  it('continues to lead through a single lost answer', async () => {
    const { clock, join } = aWorld();
    const one = join('one');
    await clock.advance(1000);
    let messages = 0;
    one.network.faults = { delayMs: () => 1, lost: () => ++messages === 2 };
    await clock.advance(30_000);
    expect(one.log).toEqual(['started 4']);
    await one.stop();
  });

  it('ends at once when its lease names another holder', async () => {
    const { clock, server, join } = aWorld();
    const one = join('one');
    await clock.advance(100);
    const { lease } = server;
    if (lease === undefined) throw new Error('there is no lease');
    server.leases.set('operator', {
      ...lease,
      metadata: { ...lease.metadata, resourceVersion: 'edited' },
      spec: { ...lease.spec, holderIdentity: 'someone' },
    });
    await clock.advance(2100);
    expect(one.election.isLeading).toBe(false);
    expect(() => one.election.assertLeading()).toThrow(NotLeadingError);
    await one.stop();
  });

  it('gives the lease away when its work fails', async () => {
    const { clock, join } = aWorld();
    let starts = 0;
    const one = join('one', {
      onStartedLeading: () => (++starts === 1 ? Promise.reject(new Error('broken')) : undefined),
    });
    await clock.advance(10_000);
    expect({ starts, leading: one.election.isLeading }).toEqual({ starts: 2, leading: true });
    await one.stop();
  });

  it('does not give the lease away while a write may still be executed', async () => {
    const { clock, server, join } = aWorld();
    const one = join('one');
    await clock.advance(1000);
    const outside = server.clientOf('one', one.clock, { faults: allLost });
    const write = fenced(outside, one.election).mergePatch(things, 'default', 'thing', {});
    const stopped = one.stop();
    await clock.advance(4900);
    expect(server.lease?.spec?.holderIdentity).toBe('one');
    await expect(write).rejects.toThrow('no answer');
    await stopped;
    expect(server.lease?.spec?.holderIdentity).toBe('');
  });

  it('begins no term while a write of its last one may still be executed', async () => {
    const { clock, join } = aWorld();
    const one = join('one');
    one.election.writes.begin().ended(false);
    await clock.advance(4_900);
    expect({ log: one.log, leads: one.election.isLeading }).toEqual({ log: [], leads: true });
    await clock.advance(200);
    expect(one.log).toEqual(['started 5000']);
    await one.stop();
  });

  it('refuses durations that do not fit together', () => {
    const { join } = aWorld();
    expect(() => join('one', { renewDeadlineMs: 15_000 })).toThrow(
      'leaseDurationMs must be greater than renewDeadlineMs',
    );
    expect(() => join('one', { retryPeriodMs: 9000 })).toThrow(
      'renewDeadlineMs must be greater than 1.2 times retryPeriodMs',
    );
  });
});

describe('fenced', () => {
  it('refuses writes of a process that does not lead, and lets it read', async () => {
    const { clock, server, join } = aWorld();
    const one = join('one');
    await clock.advance(100);
    const two = join('two');
    const client = fenced(server.clientOf('two', two.clock, { faults: noFaults }), two.election);
    await expect(client.mergePatch(things, 'default', 'thing', {})).rejects.toThrow(
      NotLeadingError,
    );
    await expect(clock.run(client.get(things, 'system', 'operator'))).resolves.toBeDefined();
    await two.stop();
    await one.stop();
  });

  it('bounds the deadline of a write by what is left of the lease after the renew deadline', async () => {
    const { clock, server, join } = aWorld();
    const one = join('one');
    await clock.advance(100);
    const client = fenced(server.clientOf('one', one.clock, { faults: allLost }), one.election);
    const began = clock.monotonic();
    await expect(
      clock.run(client.mergePatch(things, 'default', 'thing', {}, { deadlineMs: 9000 })),
    ).rejects.toThrow('no answer');
    expect(clock.monotonic() - began).toBe(5000);
    await one.stop();
  });

  it('asks again when the request is handed to a connection', async () => {
    const calls: string[] = [];
    const { server, join, clock } = aWorld();
    const one = join('one');
    await clock.advance(100);
    let gate: (() => void) | undefined;
    const client = fenced(
      {
        ...server.clientOf('one', one.clock, { faults: noFaults }),
        delete: (_resource, _namespace, _name, options) => {
          gate = options?.beforeSend;
          return Promise.resolve();
        },
      },
      one.election,
    );
    await client.delete(things, 'default', 'thing', { beforeSend: () => calls.push('mine') });
    gate?.();
    await one.stop();
    expect(() => gate?.()).toThrow(NotLeadingError);
    expect(calls).toEqual(['mine']);
  });
});
