import { Snapshot } from '../../../../src/quota/snapshot.ts';
import { StoredLimits } from '../../../../src/controllers/admission/stored-limits.ts';
import { QuotaStatusReconciler } from '../../../../src/controllers/admission/quota-status.ts';
import type { Slot } from '../../../../src/quota/slot.ts';
import {
  conversationQuotas,
  type ConversationQuota,
  type ConversationQuotaSpec,
} from '../../../../src/resources/conversation-quota.ts';
import { quotaRules } from '../../../../src/quota/rules.ts';
import { aQuota, aSlot, noonMs } from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';

type Wishes = Readonly<Record<string, Partial<ConversationQuotaSpec>>>;

/** The status of the quota named `first` with these sandboxes. */
async function statusOf(
  wishes: Wishes,
  slots: readonly Slot[],
): Promise<ConversationQuota['status']> {
  const client = new FakeKubeClient();
  const quotas = await Promise.all(
    Object.entries(wishes).map(([name, spec]) =>
      client.create(conversationQuotas, {
        ...aQuota(name, spec),
        metadata: { name, namespace: 'default' },
      }),
    ),
  );
  const queue = new Snapshot();
  queue.setRules(quotaRules(quotas));
  for (const slot of slots) queue.put(slot);
  const get = (_namespace: string, name: string) =>
    quotas.find(({ metadata }) => metadata.name === name);
  const reconciler = new QuotaStatusReconciler({
    client,
    stores: { quotas: { get, list: () => quotas, byIndex: () => [], size: quotas.length } },
    cache: { snapshot: () => queue, now: () => noonMs, limits },
    clock: { now: () => noonMs, monotonic: () => 0, after: () => ({ cancel: () => undefined }) },
  });
  await reconciler.reconcile({ namespace: 'default', name: 'first' }, new AbortController().signal);
  return (await client.get(conversationQuotas, 'default', 'first')).status;
}

const limits = new StoredLimits({ snapshot: () => new Snapshot(), onChange: () => undefined });

const aRun = (uid: string, owner: string, activeSince = 0) =>
  aSlot(uid, 'running', { owner, activeSince });

describe('the status of a quota', () => {
  it('counts what is active, what waits and what it has paused, and names what is paused next', async () => {
    const slots = [
      aRun('a', 'alice', 2),
      aRun('b', 'alice', 1),
      aSlot('c', 'resumable'),
      aRun('z', 'bob'),
    ];
    expect(await statusOf({ first: { owner: 'alice', limit: 2 } }, slots)).toEqual({
      observedGeneration: 1,
      active: 2,
      waiting: 0,
      paused: 1,
      nextToPause: 'b',
    });
  });

  it('names nothing while there is room, or while nothing may be paused', async () => {
    for (const spec of [{ limit: 2 }, { limit: 1, onExceeded: 'Queue' as const }])
      expect(
        await statusOf({ first: { owner: 'alice', ...spec } }, [aRun('a', 'alice')]),
      ).not.toHaveProperty('nextToPause');
  });

  it('says of a quota for everybody which owners are full, and what a start of each would pause', async () => {
    const slots = [
      aRun('a', 'alice'),
      aRun('b', 'bob'),
      aSlot('c', 'waiting', { owner: 'bob' }),
      aSlot('d', 'resumable', { owner: 'carol' }),
    ];
    expect(await statusOf({ first: { limit: 1 } }, slots)).toMatchObject({
      active: 2,
      waiting: 1,
      paused: 1,
      fullOwners: [
        { owner: 'bob', active: 1, waiting: 1, paused: 0 },
        { owner: 'alice', active: 1, waiting: 0, paused: 0, nextToPause: 'a' },
      ],
    });
  });

  it('names twenty of them at most, those with the most that waits', async () => {
    const owners = Array.from(
      { length: 50 },
      (_, index) => `owner-${String(index).padStart(2, '0')}`,
    );
    const slots = owners.flatMap((owner, index) => [
      aRun(owner, owner),
      ...Array.from({ length: (index * 7) % 50 }, (__, count) =>
        aSlot(`${owner}-${count}`, 'waiting', { owner }),
      ),
    ]);
    const status = await statusOf({ first: { limit: 1 } }, slots);
    expect(status?.fullOwners?.map(({ waiting }) => waiting)).toEqual(
      Array.from({ length: 20 }, (_, index) => 49 - index),
    );
  });

  it('leaves out owners who have a quota of their own', async () => {
    const slots = [aRun('a', 'alice'), aRun('b', 'bob')];
    expect(
      await statusOf({ first: { limit: 1 }, bobs: { owner: 'bob', limit: 1 } }, slots),
    ).toMatchObject({ active: 1, nextToPause: 'a', fullOwners: [{ owner: 'alice' }] });
  });

  it('of a quota for an owner who has nothing is all zeros', async () => {
    expect(await statusOf({ first: { owner: 'alice' } }, [])).toEqual({
      observedGeneration: 1,
      active: 0,
      waiting: 0,
      paused: 0,
    });
  });

  it('names both where two are for the same, and the strictest', async () => {
    expect(await statusOf({ first: { limit: 5 }, second: { limit: 3 } }, [])).toMatchObject({
      conditions: [
        {
          type: 'Conflicting',
          status: 'True',
          reason: 'SameScope',
          message: 'The quotas first, second are for the same; second, the strictest, decides.',
        },
      ],
    });
  });

  it.each(['Europe/Atlantis', 'Mars'])(
    'says of a budget in the time zone %s that UTC applies',
    async (timeZone) => {
      const budget = { amount: 1, timeZone } as ConversationQuotaSpec['budget'];
      const status = await statusOf({ first: { budget } }, []);
      expect(status).toMatchObject({
        conditions: [{ type: 'UnknownTimeZone', status: 'True', reason: 'NotInDatabase' }],
      });
      expect(status?.conditions?.[0]?.message).toContain(`no ${timeZone}. `);
    },
  );

  it('says nothing of a budget in a known time zone', async () => {
    const budget = { amount: 1, timeZone: 'Europe/Berlin' } as ConversationQuotaSpec['budget'];
    expect((await statusOf({ first: { budget } }, []))?.conditions).toBeUndefined();
  });

  it('fits, however many are for the same', async () => {
    const names = Array.from(
      { length: 300 },
      (_, index) => `${'long'.repeat(60)}-${String(index).padStart(3, '0')}`,
    );
    const status = await statusOf(
      Object.fromEntries(['first', ...names].map((name) => [name, {}])),
      [],
    );
    expect(status?.conditions?.[0]?.message).toContain('and 291 more are for the same');
    expect(conversationQuotas.accepts?.({ ...aQuota('first', {}), status })).toBe(true);
  });
});
