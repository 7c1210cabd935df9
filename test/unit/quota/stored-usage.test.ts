import fc from 'fast-check';
import {
  StoredUsage,
  type Judge,
  type StoredConversation,
} from '../../../src/quota/stored-usage.ts';

const aStored = (name: string, more: Partial<StoredConversation> = {}): StoredConversation => ({
  ...{ uid: name, name, owner: 'alice', createdAt: 0, bytes: 1, isNew: true, needsSandbox: false },
  ...more,
});
interface Limits {
  readonly conversations: number;
  readonly bytes: number;
  readonly namespace: number;
}
const judgeBy =
  ({ conversations, bytes, namespace }: Limits): Judge<string> =>
  (candidate, owner, all) => {
    if (owner.conversations + 1 > conversations) return 'conversations';
    if (owner.bytes + candidate.bytes > bytes) return 'bytes';
    return all.conversations + 1 > namespace ? 'namespace' : undefined;
  };
const noLimits: Limits = { conversations: Infinity, bytes: Infinity, namespace: Infinity };
const usageOf = (...stored: readonly StoredConversation[]): StoredUsage<string> => {
  const usage = new StoredUsage<string>();
  for (const conversation of stored) usage.put(conversation);
  return usage;
};

describe('of new conversations', () => {
  it('the ones that were created last are refused, whichever is asked for first', () => {
    const usage = usageOf(
      aStored('c', { createdAt: 2 }),
      aStored('b', { createdAt: 1 }),
      aStored('a', { createdAt: 1 }),
    );
    const judge = judgeBy({ ...noLimits, conversations: 2 });
    expect(usage.verdictOn('c', judge)).toBe('conversations');
    expect(usage.verdictOn('a', judge)).toBeUndefined();
    expect(usage.verdictOn('b', judge)).toBeUndefined();
  });

  it('one that does not fit leaves no room for others until it is deleted: its record is stored', () => {
    const usage = usageOf(aStored('a', { bytes: 50 }), aStored('b', { bytes: 5 }));
    const judge = judgeBy({ ...noLimits, bytes: 10 });
    expect(usage.verdictOn('b', judge)).toBe('bytes');
    expect(usage.verdictOn('a', judge)).toBe('bytes');
    usage.remove('a');
    usage.put(aStored('c', { bytes: 5 }));
    expect(usage.verdictOn('c', judge)).toBeUndefined();
  });

  it('one that is refused is to get no sandbox', () => {
    const usage = usageOf(
      aStored('a', { needsSandbox: true }),
      aStored('b', { needsSandbox: true }),
    );
    usage.verdictOn('b', judgeBy({ ...noLimits, conversations: 1 }));
    expect(usage.namespace).toEqual({ conversations: 2, bytes: 2, sandboxesToCome: 1 });
  });

  it('an accepted one stays accepted when the limit is lowered', () => {
    const usage = usageOf(aStored('a'));
    expect(usage.verdictOn('a', judgeBy(noLimits))).toBeUndefined();
    expect(usage.verdictOn('a', judgeBy({ ...noLimits, conversations: 0 }))).toBeUndefined();
    usage.put(aStored('a', { isNew: false }));
    expect(usage.owner('alice').conversations).toBe(1);
  });

  it('a deleted one makes room for later ones', () => {
    const judge = judgeBy({ ...noLimits, conversations: 1 });
    const usage = usageOf(aStored('a'), aStored('b'));
    expect([usage.verdictOn('a', judge), usage.verdictOn('b', judge)]).toEqual([
      undefined,
      'conversations',
    ]);
    usage.put(aStored('b', { isNew: false }));
    usage.remove('a');
    expect(usage.namespace.conversations).toBe(1);
    usage.remove('b');
    usage.put(aStored('c'));
    expect(usage.verdictOn('c', judge)).toBeUndefined();
    expect(usage.namespace.conversations).toBe(1);
  });

  it('those of one owner are no reason to refuse those of another', () => {
    const usage = usageOf(aStored('a'), aStored('b'), aStored('z', { owner: 'bob', createdAt: 9 }));
    const judge = judgeBy({ ...noLimits, conversations: 1 });
    expect(usage.verdictOn('z', judge)).toBeUndefined();
    expect(usage.verdictOn('b', judge)).toBe('conversations');
  });

  it('one that is not known is refused by nothing', () => {
    expect(usageOf().verdictOn('a', () => 'no')).toBeUndefined();
  });
});

const wish = fc.record({
  owner: fc.constantFrom('alice', 'bob'),
  createdAt: fc.nat(3),
  bytes: fc.nat(5),
  isNew: fc.boolean(),
});
const limits = fc.record({ conversations: fc.nat(5), bytes: fc.nat(15), namespace: fc.nat(8) });

it('gives the same verdicts in whatever order they are asked for, and never accepts more than fits', () => {
  fc.assert(
    fc.property(
      fc.array(wish, { maxLength: 15 }),
      limits,
      fc.infiniteStream(fc.nat()),
      (wishes, allowed, dice) => {
        const stored = wishes.map((one, index) =>
          aStored(`c${String(index).padStart(2, '0')}`, one),
        );
        const judge = judgeBy(allowed);
        const inOrder = (uids: readonly string[]) => {
          const usage = usageOf(...stored);
          const before = usage.namespace.conversations;
          const verdicts = new Map(uids.map((uid) => [uid, usage.verdictOn(uid, judge)]));
          expect(usage.namespace.conversations).toBe(stored.length);
          const fits = (one: StoredConversation) =>
            !one.isNew || verdicts.get(one.uid) === undefined;
          const accepted = stored.filter((one) => one.isNew && fits(one));
          if (accepted.length > 0)
            expect(before + accepted.length).toBeLessThanOrEqual(allowed.namespace);
          for (const owner of new Set(accepted.map((one) => one.owner))) {
            const own = stored.filter((one) => one.owner === owner && fits(one));
            expect(own.length).toBeLessThanOrEqual(allowed.conversations);
            expect(own.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThanOrEqual(
              allowed.bytes,
            );
          }
          return new Map([...verdicts].sort());
        };
        const uids = stored.map(({ uid }) => uid);
        const keys = new Map(uids.map((uid) => [uid, dice.next().value]));
        const shuffled = uids.toSorted(
          (one, other) => (keys.get(one) ?? 0) - (keys.get(other) ?? 0),
        );
        expect(inOrder(shuffled)).toEqual(inOrder(uids));
      },
    ),
    { numRuns: 1000 },
  );
});

it('counts what is there, whatever comes and goes', () => {
  const change = fc.oneof(
    fc.record({
      kind: fc.constant('put' as const),
      which: fc.nat(5),
      stored: wish,
      needsSandbox: fc.boolean(),
    }),
    fc.record({ kind: fc.constant('remove' as const), which: fc.nat(5) }),
    fc.record({ kind: fc.constant('ask' as const), which: fc.nat(5) }),
  );
  fc.assert(
    fc.property(fc.array(change, { maxLength: 60 }), limits, (changes, allowed) => {
      const usage = new StoredUsage<string>();
      const there = new Map<string, StoredConversation>();
      const judge = judgeBy(allowed);
      for (const happens of changes) {
        const uid = `c${happens.which}`;
        if (happens.kind === 'remove') {
          usage.remove(uid);
          there.delete(uid);
        } else if (happens.kind === 'ask') usage.verdictOn(uid, judge);
        else {
          const { needsSandbox } = happens;
          const before = there.get(uid);
          // Owners and times of creation are for ever, and no start begins anew.
          const { owner, createdAt } = before ?? happens.stored;
          const isNew =
            before === undefined ? happens.stored.isNew : before.isNew && happens.stored.isNew;
          const one = aStored(uid, { ...happens.stored, owner, createdAt, isNew, needsSandbox });
          usage.put(one);
          there.set(uid, one);
        }
        for (const one of there.values())
          if (one.isNew && usage.owner(one.owner).conversations > 0)
            usage.verdictOn(one.uid, judge);
        const all = [...there.values()];
        const accepted = all.filter(
          (one) => !one.isNew || usage.verdictOn(one.uid, judge) === undefined,
        );
        expect(usage.namespace).toEqual({
          conversations: all.length,
          bytes: all.reduce((sum, { bytes }) => sum + bytes, 0),
          sandboxesToCome: accepted.filter(({ needsSandbox }) => needsSandbox).length,
        });
      }
    }),
    { numRuns: 500 },
  );
});
