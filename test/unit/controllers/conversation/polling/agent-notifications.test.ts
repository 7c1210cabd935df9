import { AgentNotifications } from '../../../../../src/controllers/conversation/polling/agent-notifications.ts';
import { conversationIndexers } from '../../../../../src/controllers/caches.ts';
import { IndexedStore } from '@conversation-operator/kube/store';
import {
  cachedConversation,
  type CachedConversation,
} from '../../../../../src/resources/cached-conversation.ts';
import { conversationIdOf } from '../../../../../src/resources/ids.ts';
import type { Sandbox } from '../../../../../src/resources/sandbox.ts';
import { aConversation, aSandbox, noonMs } from '../../../../support/builders.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';

const namespace = 'default';

/** Sandboxes, each with this number of conversations of its owner. */
function setUp(
  ...counts: readonly (readonly [sandbox: string, owner: string, count: number, where?: string])[]
) {
  const clock = new VirtualClock(noonMs);
  const stores = {
    conversations: new IndexedStore<CachedConversation>(conversationIndexers),
    sandboxes: new IndexedStore<Sandbox>(),
  };
  for (const [sandbox, owner, count, where = namespace] of counts) {
    const moved = <T extends { readonly metadata: object }>(object: T): T => ({
      ...object,
      metadata: { ...object.metadata, namespace: where },
    });
    stores.sandboxes.set(moved(aSandbox({ name: sandbox, owner })));
    for (let index = 0; index < count; index++)
      stores.conversations.set(
        cachedConversation(
          moved(
            aConversation({
              name: `${sandbox}-${index}`,
              spec: { owner },
              status: { sandboxName: sandbox },
            }),
          ),
        ),
      );
  }
  const notified: string[] = [];
  const notifications = new AgentNotifications({
    stores,
    clock,
    onNotification: ({ name }) => void notified.push(name),
  });
  const idOf = (name: string) => conversationIdOf(aConversation({ name }));
  return { clock, notifications, idOf, notified: () => notified.splice(0) };
}

it('brings forward the conversation that is named, or all of a sandbox', () => {
  const { notifications, idOf, notified } = setUp(['one', 'alice', 3], ['two', 'alice', 1]);
  notifications.take({ namespace, sandbox: 'one', conversationId: idOf('one-1') });
  expect(notified()).toEqual(['one-1']);
  notifications.take({ namespace, sandbox: 'one' });
  expect(notified()).toEqual(['one-0', 'one-1', 'one-2']);
});

it('means nothing for a conversation of another sandbox, and for sandboxes that are not there', () => {
  const { notifications, idOf, notified } = setUp(['one', 'alice', 1], ['two', 'bob', 1]);
  notifications.take({ namespace, sandbox: 'two', conversationId: idOf('one-0') });
  notifications.take({ namespace, sandbox: 'three' });
  notifications.take({ namespace: 'elsewhere', sandbox: 'one' });
  expect(notified()).toEqual([]);
});

it('has a budget for each owner: one whose agents notify all the time takes nothing from others', async () => {
  const { clock, notifications, notified } = setUp(
    ...([
      ['many', 'mallory', 200],
      ['one', 'alice', 1],
      ['two', 'mallory', 1, 'elsewhere'],
    ] as const),
  );
  for (let count = 0; count < 1_000; count++) notifications.take({ namespace, sandbox: 'many' });
  expect(notified().length).toBe(400);
  notifications.take({ namespace, sandbox: 'one' });
  // An owner of the same name in another namespace is another owner.
  notifications.take({ namespace: 'elsewhere', sandbox: 'two' });
  expect(notified()).toEqual(['one-0', 'two-0']);
  await clock.advance(10_000);
  for (let count = 0; count < 1_000; count++) notifications.take({ namespace, sandbox: 'many' });
  expect(notified().length).toBe(400);
});
