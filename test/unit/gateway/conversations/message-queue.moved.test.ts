import type { KubeClient } from '@conversation-operator/kube/client';
import { queueMessage } from '../../../../src/gateway/conversations/message-queue.ts';
import { aConversation, aStoredConversation } from '../../../support/builders.ts';

it('a late message of the former owner finds no conversation', async () => {
  const written: unknown[] = [];
  const client = {
    get: () => Promise.resolve(aStoredConversation({ spec: { owner: 'bob' } })),
    mergePatch: (...parts: readonly unknown[]) => {
      written.push(parts);
      return Promise.resolve(aStoredConversation());
    },
  } as unknown as KubeClient;
  const message = { role: 'user', run: true, content: [{ type: 'text', text: 'go' }] } as const;
  await expect(
    queueMessage(client, aConversation(), 'late', { ...message, content: [...message.content] }),
  ).rejects.toMatchObject({ code: 'not-found' });
  expect(written).toEqual([]);
});
