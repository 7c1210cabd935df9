import type { Request } from '@conversation-operator/kube/controller';
import { ownerReferenceTo } from '@conversation-operator/kube/object';
import type { Handler } from '@conversation-operator/kube/reflector';
import { IndexedStore } from '@conversation-operator/kube/store';
import {
  conversationControllers,
  type ConversationControllersOptions,
} from '../../../../src/controllers/conversation/controllers.ts';
import { conversationIndexers } from '../../../../src/controllers/caches.ts';
import type { CachedConversation } from '../../../../src/resources/cached-conversation.ts';
import type { Sandbox } from '../../../../src/resources/sandbox.ts';
import { aConversation, aSandbox } from '../../../support/builders.ts';

const { signal } = new AbortController();

const aged = (generation: number, namespace = 'default') => ({
  namespace,
  name: 'default',
  generation,
});
const raised = (raises: number, namespace?: string) => ({
  metadata: aged(1, namespace),
  status: { accounts: [{ raises: Array.from({ length: raises }, () => ({})) }] },
});

describe('the controllers of conversations', () => {
  it('share no conversation: each drops those of the other, and waits while the other still works on one that has just started', async () => {
    let conversation: CachedConversation = aConversation({
      status: { start: { status: 'WORKING', transitions: [] } },
    });
    const { namespace, name } = conversation.metadata;
    const request: Request = { namespace, name };
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const reconciles: (() => Promise<undefined>)[] = [
      () => promise,
      () => Promise.resolve(undefined),
    ];
    const [start, status] = conversationControllers({
      caches: { conversations: { store: { get: () => conversation } } },
      reconciler: { reconcile: () => reconciles.shift()?.() },
    } as unknown as ConversationControllersOptions);
    await status.reconcile(request, signal);
    const first = start.reconcile(request, signal);
    expect(reconciles).toHaveLength(1);
    conversation = aConversation({ status: { start: { status: 'READY', transitions: [] } } });
    await expect(status.reconcile(request, signal)).resolves.toEqual({ requeueAfterMs: 100 });
    resolve(undefined);
    await first;
    await start.reconcile(request, signal);
    expect(reconciles).toHaveLength(1);
    await expect(status.reconcile(request, signal)).resolves.toBeUndefined();
    expect(reconciles).toHaveLength(0);
  });

  it.each<[string, string, number]>([
    ['not use', 'late', 1],
    ['use', 'spare', 1],
    ['use or not, of another owner', 'late', 0],
  ])('hand the maker of a sandbox the events of one that it does %s', (_words, name, requests) => {
    const issuer = aConversation({
      status: { start: { status: 'READY', transitions: [] }, sandboxName: 'spare' },
    });
    const conversations = new IndexedStore<CachedConversation>(conversationIndexers);
    conversations.set(issuer);
    const made = aSandbox({ name, owner: requests === 0 ? 'mallory' : issuer.spec.owner });
    const sandbox = {
      ...made,
      metadata: {
        ...made.metadata,
        ownerReferences: [ownerReferenceTo(issuer, { controller: true })],
      },
    };
    const unwatched = { addHandler: () => () => undefined };
    const added: Request[] = [];
    const [, controller] = conversationControllers({
      caches: {
        conversations: { ...unwatched, store: conversations },
        quotas: unwatched,
        usageRecords: unwatched,
        sandboxes: { addHandler: (handler: Handler<Sandbox>) => handler.added?.(sandbox) },
      },
      notified: () => () => undefined,
    } as unknown as ConversationControllersOptions);
    for (const connect of controller.sources)
      connect({ enqueueAfter: (request) => void added.push(request) });
    const { namespace, name: own } = issuer.metadata;
    expect(added).toEqual(Array.from({ length: requests }, () => ({ namespace, name: own })));
  });

  it.each<[string, 'quotas' | 'usageRecords', object, object | undefined, number]>([
    ['a raise', 'usageRecords', raised(1), raised(0), 1],
    ['other news of a record', 'usageRecords', raised(1), raised(1), 0],
    ['a change of a quota', 'quotas', { metadata: aged(2) }, { metadata: aged(1) }, 1],
    ['a deleted quota', 'quotas', { metadata: aged(1) }, undefined, 1],
    ['a status of a quota', 'quotas', { metadata: aged(1) }, { metadata: aged(1) }, 0],
    ['a raise elsewhere', 'usageRecords', raised(1, 'elsewhere'), raised(0, 'elsewhere'), 0],
  ])(
    'look at the starts that wait for a budget after %s',
    (_name, watched, object, old, requests) => {
      const conversations = new IndexedStore<CachedConversation>(conversationIndexers);
      const start = { status: 'WORKING' as const, transitions: [] };
      const waiting = aConversation({
        status: { start: { ...start, errorCode: 'WaitingForBudget' } },
      });
      conversations.set(waiting);
      conversations.set(aConversation({ name: 'other', status: { start } }));
      const unwatched = { addHandler: () => () => undefined };
      const [controller] = conversationControllers({
        caches: {
          conversations: { ...unwatched, store: conversations },
          sandboxes: unwatched,
          quotas: unwatched,
          usageRecords: unwatched,
          [watched]: {
            addHandler: (handler: Handler<object>) =>
              old === undefined
                ? handler.deleted?.(object, 'observed')
                : handler.updated?.(object, old),
          },
        },
        notified: () => () => undefined,
      } as unknown as ConversationControllersOptions);
      const added: Request[] = [];
      for (const connect of controller.sources)
        connect({ enqueueAfter: (request) => void added.push(request) });
      const { namespace, name } = waiting.metadata;
      expect(added).toEqual(Array.from({ length: requests }, () => ({ namespace, name })));
    },
  );
});
