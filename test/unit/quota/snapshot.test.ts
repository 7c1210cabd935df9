import fc from 'fast-check';
import { Snapshot } from '../../../src/quota/snapshot.ts';
import { quotaRules } from '../../../src/quota/rules.ts';
import { aQuota, aSlot } from '../../support/builders.ts';

const owner = fc.constantFrom('alice', 'bob', 'carol', '');
const time = fc.integer({ min: 0, max: 60 });
const put = fc.record({
  kind: fc.constant('put' as const),
  uid: fc.integer({ min: 0, max: 8 }),
  owner,
  state: fc.constantFrom(
    ...(['waiting', 'starting', 'running', 'freeing', 'resumable', 'suspended'] as const),
  ),
  more: fc.record({
    bare: fc.boolean(),
    stored: fc.boolean(),
    undecided: fc.boolean(),
    releasable: fc.boolean(),
    requestedAt: time,
    resumesAt: time,
    expiry: fc.option(
      time.map((at) => ({ at, reason: 'Idle' as const, limit: '1m' })),
      { nil: undefined },
    ),
  }),
});
const change = fc.oneof(
  { weight: 8, arbitrary: put },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('remove' as const),
      uid: fc.integer({ min: 0, max: 8 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: time }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('quota' as const),
      owner: fc.option(owner, { nil: undefined }),
      limit: fc.integer({ min: 0, max: 3 }),
    }),
  },
);

/** The reading of a decision, in an order that does not depend on the history of the snapshot. */
function readingOf(snapshot: Snapshot, now: number): unknown {
  const { owners, resuming, all, warmSandboxes, wanted, demand, dueAt } = snapshot.view(now);
  const { waiting, candidates, ...load } = all.load;
  return {
    ...load,
    wanted,
    demand,
    dueAt,
    warmSandboxes: warmSandboxes.load.taken,
    owners: owners.map(({ name }) => name).sort(),
    resuming: resuming.map(({ name }) => name).sort(),
    waiting: waiting.map(({ uid }) => uid),
    candidates: candidates.map(({ uid }) => uid).sort(),
  };
}

it('reads after many changes like a snapshot that is filled anew', () => {
  fc.assert(
    fc.property(fc.array(change, { maxLength: 40, size: 'max' }), (changes) => {
      const snapshot = new Snapshot();
      const limits = new Map<string | undefined, number>();
      let now = 0;
      for (const one of changes) {
        if (one.kind === 'pass') now += one.ms;
        if (one.kind === 'remove') snapshot.remove(`s${one.uid}`);
        if (one.kind === 'quota') {
          limits.set(one.owner, one.limit);
          snapshot.setRules(rulesOf(limits));
        }
        if (one.kind === 'put')
          snapshot.put(
            aSlot(`s${one.uid}`, one.state, {
              ...one.more,
              owner: one.owner,
              warmSandbox: one.owner === '',
            }),
          );
        const anew = new Snapshot();
        anew.setRules(rulesOf(limits));
        for (const slot of snapshot.slots()) anew.put(slot);
        expect(readingOf(snapshot, now)).toEqual(readingOf(anew, now));
      }
    }),
    { numRuns: 500 },
  );
});

const rulesOf = (limits: ReadonlyMap<string | undefined, number>) =>
  quotaRules(
    [...limits].map(([name, limit]) =>
      name === ''
        ? aQuota('all', { scope: 'Namespace', limit })
        : aQuota(`for-${name ?? 'each'}`, {
            limit,
            ...(name === undefined ? {} : { owner: name }),
          }),
    ),
  );
