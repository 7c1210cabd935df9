import { ownerReferenceTo } from '@conversation-operator/kube/object';
import { ownSandboxName } from '../../../../src/resources/ids.ts';
import fc from 'fast-check';
import { StorageCaps } from '../../../../src/gateway/lookup/storage-caps.ts';
import type { Totals } from '../../../../src/quota/caps.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../../../src/resources/cached-conversation.ts';
import { isStartOver, startStatusOf } from '../../../../src/resources/conversation.ts';
import type {
  ConversationStatus,
  StartStatus,
} from '../../../../src/resources/conversation-status.ts';
import type { Sandbox } from '../../../../src/resources/sandbox.ts';
import {
  aConversation,
  aSandbox,
  aWarmSandbox,
  condition,
  noon,
} from '../../../support/builders.ts';
import { TestCache } from '../../../support/test-cache.ts';

const namespace = 'default';
const setUp = () => {
  const caches = {
    conversations: new TestCache<CachedConversation>(),
    sandboxes: new TestCache<Sandbox>(),
  };
  const totals = new StorageCaps({ caches, namespace, quotas: () => [] });
  totals.open();
  const reserve = (owner: string, growth: Partial<Totals>) => {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const ended = totals.during(owner, growth, () => promise);
    return async () => {
      resolve(undefined);
      await ended;
    };
  };
  return { ...caches, totals, reserve };
};
const id = (index: number) => String(index).padStart(32, '0');
const at = (status: StartStatus): ConversationStatus => ({ start: { status, transitions: [] } });

describe('what owners have stored', () => {
  it('counts what is written until the write has ended, which waits for the cache', async () => {
    const { totals, conversations, reserve } = setUp();
    const conversation = cachedConversation(aConversation({ name: id(1), status: at('READY') }));
    const { storedBytes } = conversation;
    const end = reserve('alice', { conversations: 1, storedBytes });
    expect(totals.stored('alice')).toMatchObject({ conversations: 1, storedBytes });
    conversations.set(conversation);
    await end();
    expect(totals.stored('alice')).toMatchObject({ conversations: 1, storedBytes });
    conversations.delete(conversation);
    expect(totals.all).toEqual({ conversations: 0, storedBytes: 0, sandboxes: 0 });
  });

  it('expects the sandbox of a start also while one of another owner has its name', () => {
    const { totals, conversations, sandboxes } = setUp();
    const starting = cachedConversation(aConversation({ name: id(1), status: at('WORKING') }));
    const squatter = aSandbox({ name: ownSandboxName(id(1)), owner: 'mallory' });
    conversations.set(starting);
    sandboxes.set(squatter);
    expect(totals.stored('alice').sandboxes).toBe(1);
    conversations.delete(starting);
    conversations.set(starting);
    expect(totals.stored('alice').sandboxes).toBe(1);
    expect(totals.stored('mallory').sandboxes).toBe(1);
  });

  it('counts a start that claims a warm sandbox once, whichever cache shows the claim first', () => {
    const { totals, conversations, sandboxes } = setUp();
    const starting = cachedConversation(aConversation({ name: id(1), status: at('WORKING') }));
    const warmSandbox = aWarmSandbox('spare');
    conversations.set(starting);
    sandboxes.set(warmSandbox);
    expect([totals.stored('alice').sandboxes, totals.all.sandboxes]).toEqual([1, 1]);
    const ownerReferences = [ownerReferenceTo(starting, { controller: true })];
    sandboxes.set({
      ...warmSandbox,
      metadata: { ...warmSandbox.metadata, ownerReferences },
      spec: { ...warmSandbox.spec, owner: 'alice' },
    });
    expect([totals.stored('alice').sandboxes, totals.all.sandboxes]).toEqual([1, 1]);
  });

  it('counts a sandbox that has failed, but none that the operator has refused for a limit: that gets no volume', () => {
    const { totals, sandboxes } = setUp();
    const failed = (reason: string) =>
      aSandbox({ name: reason, status: { conditions: [condition('Failed', 'True', reason)] } });
    sandboxes.set(failed('CrashLoop'));
    sandboxes.set(failed('SandboxLimitExceeded'));
    expect(totals.stored('alice').sandboxes).toBe(1);
  });

  const indexes = fc.integer({ min: 0, max: 4 });
  const owner = fc.constantFrom('alice', 'bob');
  const step = fc.oneof(
    fc.record({
      kind: fc.constant('conversation' as const),
      index: indexes,
      owner,
      title: fc.string(),
      isStarting: fc.boolean(),
      deleting: fc.boolean(),
      joins: fc.boolean(),
    }),
    fc.record({
      kind: fc.constant('sandbox' as const),
      index: indexes,
      owner,
      deleting: fc.boolean(),
    }),
    fc.record({
      kind: fc.constant('gone' as const),
      of: fc.constantFrom('conversations' as const, 'sandboxes' as const),
      index: indexes,
    }),
    fc.record({ kind: fc.constant('reserve' as const), owner }),
    fc.record({ kind: fc.constant('release' as const) }),
  );

  it('is what a count of everything gives, whatever happens', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60, size: 'max' }), async (steps) => {
        const { totals, conversations, sandboxes, reserve } = setUp();
        const reserved: { readonly owner: string; readonly end: () => Promise<void> }[] = [];
        for (const each of steps) {
          if (each.kind === 'conversation') {
            const conversation = cachedConversation(
              aConversation({
                name: id(each.index),
                // An owner never changes.
                spec: {
                  owner: each.index % 2 === 0 ? 'alice' : 'bob',
                  title: each.title,
                  ...(each.joins ? { sandboxName: 'other' } : {}),
                },
                status: at(each.isStarting ? 'WAITING_FOR_SANDBOX' : 'READY'),
              }),
            );
            const metadata = {
              ...conversation.metadata,
              ...(each.deleting ? { deletionTimestamp: noon } : {}),
            };
            conversations.set({ ...conversation, metadata });
          } else if (each.kind === 'sandbox') {
            const sandbox = aSandbox({
              name: `sbx-${id(each.index)}`,
              owner: each.index % 2 === 0 ? 'alice' : 'bob',
              deleting: each.deleting,
            });
            const issuer = aConversation({ name: id(each.index) });
            const ownerReferences = [ownerReferenceTo(issuer, { controller: true })];
            sandboxes.set({ ...sandbox, metadata: { ...sandbox.metadata, ownerReferences } });
          } else if (each.kind === 'gone') {
            if (each.of === 'conversations')
              conversations.delete(cachedConversation(aConversation({ name: id(each.index) })));
            else sandboxes.delete(aSandbox({ name: `sbx-${id(each.index)}` }));
          } else if (each.kind === 'reserve') {
            reserved.push({
              owner: each.owner,
              end: reserve(each.owner, { conversations: 1, storedBytes: 7, sandboxes: 1 }),
            });
          } else {
            await reserved.shift()?.end();
          }
          for (const name of ['alice', 'bob']) {
            const live = conversations.store
              .list()
              .filter(
                ({ metadata, spec }) =>
                  spec.owner === name && metadata.deletionTimestamp === undefined,
              );
            const own = sandboxes.store
              .list()
              .filter(
                ({ metadata, spec }) =>
                  spec.owner === name && metadata.deletionTimestamp === undefined,
              );
            const underWay = reserved.filter((one) => one.owner === name).length;
            expect(totals.stored(name).conversations).toBe(live.length + underWay);
            expect(totals.stored(name).storedBytes).toBe(
              live.reduce((bytes, one) => bytes + one.storedBytes, underWay * 7),
            );
            const expected = live.filter(
              (one) =>
                one.spec.sandboxName === undefined &&
                !isStartOver(startStatusOf(one)) &&
                sandboxes.store.get(namespace, `sbx-${one.metadata.name}`) === undefined,
            ).length;
            // A sandbox that goes during a start ends that, and until then may count or not.
            expect(totals.stored(name).sandboxes).toBeGreaterThanOrEqual(own.length + underWay);
            expect(totals.stored(name).sandboxes).toBeLessThanOrEqual(
              own.length + expected + underWay,
            );
          }
        }
        for (const { end } of reserved) await end();
        for (const one of conversations.store.list()) conversations.delete(one);
        for (const one of sandboxes.store.list()) sandboxes.delete(one);
        expect(totals.all).toEqual({ conversations: 0, storedBytes: 0, sandboxes: 0 });
      }),
    );
  });
});
