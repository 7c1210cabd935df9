import fc from 'fast-check';
import { lead, type Term } from '../../../../src/controllers/shards/leadership.ts';
import { shardLeaseName } from '../../../../src/resources/lease-names.ts';
import { sleep } from '@conversation-operator/base/clock';
import {
  LeaseServer,
  ProcessClock,
  noFaults,
  type NetworkFaults,
} from '../../../../packages/kube/test/lease-server.ts';
import { things } from '../../../../packages/kube/test/things.ts';
import { silentLogger } from '@conversation-operator/base/logger';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const name = 'operator';

interface Replica {
  readonly clock: ProcessClock;
  readonly network: { faults: NetworkFaults };
  /** Shards whose work has begun and not ended. */
  readonly works: Set<number>;
  readonly stop: () => Promise<void>;
  /** The process ends without a release. */
  readonly crash: () => void;
}

/** A term: what one replica leads from one moment on. */
interface Begun {
  readonly order: number;
  readonly shards: number;
  readonly shard: number;
}

const overlap = (one: Begun, other: Begun): boolean =>
  one.shards !== other.shards || one.shard === other.shard;

const allLost: NetworkFaults = { delayMs: () => 1, lost: () => true };

function aWorld() {
  const clock = new VirtualClock();
  const server = new LeaseServer(clock);
  const terms: Begun[] = [];
  const violations: string[] = [];
  let writes = 0;
  server.onWrite = (writer) => {
    writes++;
    const term = terms[Number(writer)];
    const later = terms.find(
      (one) => term !== undefined && one.order > term.order && overlap(one, term),
    );
    if (later !== undefined)
      violations.push(`term ${writer} wrote after term ${later.order} had begun`);
  };
  const join = (identity: string, shards: number, drainMs = 0): Replica => {
    const own = new ProcessClock(clock);
    const network = { faults: noFaults };
    const abort = new AbortController();
    const works = new Set<number>();
    const random = () => 0.5;
    const begin = async ({ shard, fenced }: Term, signal: AbortSignal) => {
      const term = { order: terms.length, shards, shard };
      terms.push(term);
      works.add(shard);
      const client = fenced(server.clientOf(String(term.order), own, network));
      const write = () => client.mergePatch(things, 'default', 'thing', {}).catch(() => undefined);
      while (!signal.aborted) {
        await write();
        await sleep(own, 300, signal).catch(() => undefined);
      }
      const endAt = own.monotonic() + drainMs;
      while (own.monotonic() < endAt) {
        await write();
        await sleep(own, 300);
      }
      await write();
      works.delete(shard);
    };
    const running = lead(
      {
        client: server.clientOf(identity, own, network),
        namespace: 'system',
        name,
        identity,
        shards,
        clock: own,
        random,
        logger: silentLogger,
        ready: () => Promise.resolve(),
        onStartedLeading: begin,
      },
      abort.signal,
    );
    const stop = async () => {
      abort.abort(new Error('shut down'));
      await clock.run(running);
    };
    const crash = () => {
      network.faults = allLost;
      own.pause(1e12);
    };
    return { clock: own, network, works, stop, crash };
  };
  const holders = (shards: number) =>
    Array.from(
      { length: shards },
      (_, shard) => server.leases.get(shardLeaseName(name, shard))?.spec?.holderIdentity,
    );
  return { clock, server, join, holders, terms, violations, writes: () => writes };
}

describe('lead', () => {
  it('holds the Lease of the plain name alone where there is one shard', async () => {
    const { clock, server, join } = aWorld();
    const one = join('one', 1);
    await clock.advance(1_000);
    expect([...server.leases.keys()]).toEqual([name]);
    expect(server.lease?.spec?.holderIdentity).toBe('one');
    expect(server.lease?.metadata.annotations).toBeUndefined();
    await one.stop();
  });

  it('leads all shards with one replica, and spreads them over those that join', async () => {
    const { clock, server, join, holders, violations } = aWorld();
    const one = join('one', 4, 1_000);
    await clock.advance(2_000);
    expect(holders(4)).toEqual(['one', 'one', 'one', 'one']);
    expect(server.lease?.spec?.holderIdentity).toBe('shards-4');
    const two = join('two', 4, 1_000);
    await clock.advance(15_000);
    expect(holders(4).filter((holder) => holder === 'two')).toHaveLength(2);
    expect([one.works.size, two.works.size]).toEqual([2, 2]);
    const three = join('three', 4, 1_000);
    await clock.advance(15_000);
    expect([one, two, three].map(({ works }) => works.size).sort()).toEqual([1, 1, 2]);
    await one.stop();
    await clock.advance(5_000);
    expect([two.works.size, three.works.size]).toEqual([2, 2]);
    two.crash();
    await clock.advance(20_000);
    expect(holders(4)).toEqual(['three', 'three', 'three', 'three']);
    expect(violations).toEqual([]);
    await three.stop();
    expect(server.lease?.spec?.holderIdentity).toBe('');
  });

  it('drains a shard before it is released', async () => {
    const { clock, join, holders, terms, violations } = aWorld();
    join('one', 2, 8_000);
    await clock.advance(2_000);
    const two = join('two', 2);
    await clock.advance(8_000);
    expect({ holders: holders(2), terms: terms.length }).toEqual({
      holders: ['one', 'one'],
      terms: 2,
    });
    await clock.advance(4_000);
    expect(two.works.size).toBe(1);
    expect(violations).toEqual([]);
  });

  it.each([
    ['no shards', 1, 4],
    ['fewer shards', 2, 4],
    ['more shards', 4, 1],
  ])('waits until no replica of %s leads', async (_case, before, after) => {
    const { clock, server, join, terms, violations } = aWorld();
    const old = [join('old-one', before), join('old-two', before)];
    await clock.advance(5_000);
    const young = [join('new-one', after), join('new-two', after)];
    await clock.advance(30_000);
    expect(terms.every(({ shards }) => shards === before)).toBe(true);
    for (const { stop } of old) await stop();
    await clock.advance(10_000);
    expect(young.map(({ works }) => works.size).reduce((sum, size) => sum + size)).toBe(after);
    expect(server.lease?.spec?.holderIdentity).toMatch(after === 1 ? /^new-/ : /^shards-4$/);
    expect(violations).toEqual([]);
  });

  it.each([1, 3])(
    'writes nothing without the common Lease, which a replica of %i shards takes',
    async (shards) => {
      const { clock, join, terms, violations } = aWorld();
      const one = join('one', 2, 60_000);
      await clock.advance(5_000);
      const other = join('other', shards);
      await clock.advance(5_000);
      one.network.faults = { delayMs: () => 1, lost: (lease) => lease === name };
      await clock.advance(30_000);
      // The Leases of two of three shards are held until their work has ended.
      expect(other.works.size).toBe(1);
      expect(terms.length).toBe(3);
      expect(violations).toEqual([]);
    },
  );

  const event = fc.record({
    waitMs: fc.integer({ min: 0, max: 20_000 }),
    who: fc.integer({ min: 0, max: 2 }),
    what: fc.constantFrom(
      'lost',
      'lostCommon',
      'lostShards',
      'slow',
      'fair',
      'pause',
      'clock',
      'restart',
      'crash',
    ),
    shards: fc.constantFrom(1, 2, 3),
    seed: fc.integer({ min: 1, max: 1e9 }),
  });

  const drains = fc.tuple(...[1, 2, 3].map(() => fc.constantFrom(0, 500, 7_000, 20_000)));

  it('never lets two lead a namespace, whatever shards they count and whatever goes wrong', async () => {
    let writes = 0;
    let terms = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(event, { maxLength: 20 }), drains, async (events, drainsMs) => {
        const world = aWorld();
        const { clock, join } = world;
        let count = 0;
        const add = (shards: number) => join(`replica-${count++}`, shards, drainsMs[count % 3]);
        const replicas = [add(2), add(2), add(1)];
        for (const { waitMs, who, what, shards, seed } of events) {
          await clock.advance(waitMs);
          const replica = replicas[who];
          if (replica === undefined) continue;
          let state = seed;
          const draw = () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
          switch (what) {
            case 'lost':
              replica.network.faults = allLost;
              break;
            case 'lostCommon':
              replica.network.faults = { delayMs: () => 1, lost: (lease) => lease === name };
              break;
            case 'lostShards':
              replica.network.faults = {
                delayMs: () => 1,
                lost: (lease) => lease?.startsWith(`${name}-`) === true,
              };
              break;
            case 'slow':
              replica.network.faults = { delayMs: () => draw() * 4_000, lost: () => draw() < 0.1 };
              break;
            case 'fair':
              replica.network.faults = noFaults;
              break;
            case 'pause':
              replica.clock.pause(draw() * 30_000);
              break;
            case 'clock':
              clock.jumpWallClock((draw() - 0.5) * 1e8);
              break;
            case 'restart':
              await replica.stop();
              replicas[who] = add(shards);
              break;
            case 'crash':
              replica.crash();
              replicas[who] = add(shards);
              break;
          }
        }
        for (const { network } of replicas) network.faults = noFaults;
        await clock.advance(90_000);
        const led = replicas.map(({ works }) => works.size).filter((size) => size > 0);
        expect(led.length).toBeGreaterThan(0);
        for (const { stop } of replicas) await stop();
        expect(world.violations).toEqual([]);
        writes += world.writes();
        terms += world.terms.length;
      }),
      { numRuns: 60 },
    );
    expect(Math.min(writes, terms)).toBeGreaterThan(60);
  }, 600_000);
});
