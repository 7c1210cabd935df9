import type { Request } from '@conversation-operator/kube/controller';
import {
  startController,
  statusController,
} from '../../../src/controllers/conversation-controllers.ts';
import type { OperatorContext } from '../../../src/controllers/operator-context.ts';
import type { CachedConversation } from '../../../src/resources/cached-conversation.ts';
import { aConversation } from '../../support/builders.ts';

const { signal } = new AbortController();

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
    const context = {
      caches: {},
      channels: { notified: {} },
      stores: { conversations: { get: () => conversation } },
      conversations: { reconcile: () => reconciles.shift()?.() },
      conversationsInWork: new Set<string>(),
    } as unknown as OperatorContext;
    const [start, status] = [startController(context), statusController(context)];
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
});
