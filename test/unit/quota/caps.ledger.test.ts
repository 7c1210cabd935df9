import fc from 'fast-check';
import {
  Ledger,
  type StoredConversation,
  type StoredSandbox,
  quotaCaps,
  type QuotaCaps,
} from '../../../src/quota/caps.ts';
import { aQuota } from '../../support/builders.ts';

const aStored = (name: string, more: Partial<StoredConversation> = {}): StoredConversation => ({
  uid: name,
  name,
  owner: 'alice',
  createdAt: 0,
  bytes: 1,
  isNew: true,
  wantsSandbox: false,
  ...more,
});
interface Limits {
  readonly conversations: number;
  readonly bytes: number;
  readonly namespace: number;
}
const judgeBy = ({ conversations, bytes, namespace }: Limits): QuotaCaps =>
  quotaCaps([
    aQuota('conversations', { scope: 'Owner', maxConversations: conversations }),
    aQuota('bytes', { scope: 'Owner', maxStoredBytes: bytes }),
    aQuota('namespace', { scope: 'Namespace', maxConversations: namespace }),
  ]);
const verdictOf = (ledger: Ledger, uid: string, caps: QuotaCaps) =>
  ledger.verdictOn(uid, caps)?.quotaName;
const noLimits: Limits = { conversations: Infinity, bytes: Infinity, namespace: Infinity };
const ledgerOf = (...stored: readonly StoredConversation[]): Ledger => {
  const ledger = new Ledger();
  for (const conversation of stored) ledger.putConversation(conversation);
  return ledger;
};

describe('of new conversations', () => {
  it('one that is refused is to get no sandbox', () => {
    const ledger = ledgerOf(
      aStored('a', { wantsSandbox: true }),
      aStored('b', { wantsSandbox: true }),
    );
    verdictOf(ledger, 'b', judgeBy({ ...noLimits, conversations: 1 }));
    expect(ledger.all).toEqual({ conversations: 2, storedBytes: 2, sandboxes: 1 });
  });

  it('one that has its sandbox was accepted before, and stays so without the sandbox', () => {
    const ledger = ledgerOf(aStored('a', { wantsSandbox: true }));
    const caps = judgeBy({ ...noLimits, conversations: 0 });
    const sandbox = { uid: 's', owner: 'alice', counts: true, madeFor: 'a' };
    ledger.putSandbox({ ...sandbox, owner: 'mallory' });
    ledger.removeSandbox('s');
    ledger.putSandbox(sandbox);
    expect(ledger.of('alice')).toEqual({ conversations: 1, storedBytes: 1, sandboxes: 1 });
    ledger.removeSandbox('s');
    expect(verdictOf(ledger, 'a', caps)).toBeUndefined();
    expect(ledger.all.sandboxes).toBe(1);
  });

  it('one that is not known is refused by nothing', () => {
    expect(ledgerOf().verdictOn('a', judgeBy(noLimits))).toBeUndefined();
  });
});

const wish = fc.record({
  owner: fc.constantFrom('alice', 'bob'),
  createdAt: fc.nat(3),
  bytes: fc.integer({ min: 1, max: 5 }),
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
          const ledger = ledgerOf(...stored);
          const before = ledger.all.conversations;
          const verdicts = new Map(uids.map((uid) => [uid, verdictOf(ledger, uid, judge)]));
          expect(ledger.all.conversations).toBe(stored.length);
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
      wantsSandbox: fc.boolean(),
    }),
    fc.record({ kind: fc.constant('remove' as const), which: fc.nat(5) }),
    fc.record({ kind: fc.constant('ask' as const), which: fc.nat(5) }),
    fc.record({
      kind: fc.constant('sandbox' as const),
      which: fc.nat(3),
      owner: fc.constantFrom('', 'alice', 'bob'),
      counts: fc.boolean(),
      madeFor: fc.constantFrom(undefined, 'c0', 'c1', 'c2'),
    }),
    fc.record({ kind: fc.constant('sandbox gone' as const), which: fc.nat(3) }),
  );
  fc.assert(
    fc.property(fc.array(change, { maxLength: 60 }), limits, (changes, allowed) => {
      const ledger = new Ledger();
      const there = new Map<string, StoredConversation>();
      const sandboxes = new Map<string, StoredSandbox>();
      const judge = judgeBy(allowed);
      for (const happens of changes) {
        const uid = `c${happens.which}`;
        if (happens.kind === 'remove') {
          ledger.removeConversation(uid);
          there.delete(uid);
        } else if (happens.kind === 'ask') verdictOf(ledger, uid, judge);
        else if (happens.kind === 'sandbox') {
          const { owner, counts, madeFor } = happens;
          const sandbox = { uid, owner, counts, madeFor };
          ledger.putSandbox(sandbox);
          sandboxes.set(uid, sandbox);
        } else if (happens.kind === 'sandbox gone') {
          ledger.removeSandbox(uid);
          sandboxes.delete(uid);
        } else {
          const { wantsSandbox } = happens;
          const before = there.get(uid);
          // Owners and times of creation are for ever, and no start begins anew.
          const { owner, createdAt } = before ?? happens.stored;
          const isNew =
            before === undefined ? happens.stored.isNew : before.isNew && happens.stored.isNew;
          const one = aStored(uid, { ...happens.stored, owner, createdAt, isNew, wantsSandbox });
          ledger.putConversation(one);
          there.set(uid, one);
        }
        for (const one of there.values())
          if (one.isNew && ledger.of(one.owner).conversations > 0)
            verdictOf(ledger, one.uid, judge);
        const all = [...there.values()];
        const accepted = all.filter(
          (one) => !one.isNew || verdictOf(ledger, one.uid, judge) === undefined,
        );
        const owned = [...sandboxes.values()].filter(({ owner }) => owner !== '');
        const toCome = accepted.filter(
          (one) =>
            one.wantsSandbox &&
            !owned.some(({ owner, madeFor }) => owner === one.owner && madeFor === one.uid),
        );
        expect(ledger.all).toEqual({
          conversations: all.length,
          storedBytes: all.reduce((sum, { bytes }) => sum + bytes, 0),
          sandboxes: owned.filter(({ counts }) => counts).length + toCome.length,
        });
      }
    }),
    { numRuns: 500 },
  );
});
