import { mayBeExecuted } from '@conversation-operator/kube/errors';
import { deleteOne } from '../../../../src/gateway/lookup/stored.ts';
import { toProblem } from '../../../../src/gateway/errors/problem-response.ts';
import { queueMessage } from '../../../../src/gateway/conversations/message-queue.ts';
import { outcomeUnknown } from '../../../../src/controllers/sandbox/pod-creations.ts';
import { conversations } from '../../../../src/resources/conversation.ts';
import { aStoredConversation } from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { knownOutcomes, unknownOutcomes } from '../../../support/unknown-outcomes.ts';

/** A client whose next write of the verb ends with the error, before or after it is stored. */
async function aClient(verb: 'mergePatch' | 'delete', error: Error, isStored: boolean) {
  const client = new FakeKubeClient();
  const conversation = await client.create(conversations, aStoredConversation({ name: 'c-1' }));
  const write = client[verb].bind(client) as (...parameters: unknown[]) => Promise<unknown>;
  let writes = 0;
  Object.assign(client, {
    [verb]: async (...parameters: unknown[]) => {
      writes += 1;
      if (writes > 1) return write(...parameters);
      if (isStored) await write(...parameters);
      throw error;
    },
  });
  return { client, conversation, writes: () => writes };
}

const message = {
  role: 'user' as const,
  content: [{ type: 'text' as const, text: 'Say hello.' }],
  run: true,
};
const feed = { settled: () => Promise.resolve(undefined) };

describe.each(unknownOutcomes)('a write that ends with %s', (_sentence, errorOf) => {
  it('may have been executed', () => {
    expect([mayBeExecuted(errorOf()), outcomeUnknown(errorOf())]).toEqual([true, true]);
  });

  it.each([true, false])('stores a message once, whether it was stored: %s', async (isStored) => {
    const { client, conversation, writes } = await aClient('mergePatch', errorOf(), isStored);
    const number = await queueMessage(client, conversation, 'm-1', message);
    const { spec } = await client.get(conversations, 'default', 'c-1');
    expect(spec.messages).toMatchObject([{ id: 'm-1', number }]);
    expect(writes()).toBe(isStored ? 1 : 2);
  });

  it('is a deletion that is done where the object is gone', async () => {
    const { client, conversation } = await aClient('delete', errorOf(), true);
    await deleteOne(client, conversations, conversation, feed);
    expect(await client.list(conversations)).toMatchObject({ items: [] });
  });

  it('is a deletion that fails where the object is still there', async () => {
    const { client, conversation } = await aClient('delete', errorOf(), false);
    const deletion = deleteOne(client, conversations, conversation, feed);
    expect(toProblem(await deletion.catch((error: unknown) => error)).code).toBe('unavailable');
  });
});

describe.each(knownOutcomes)('a write that ends with %s', (_sentence, errorOf) => {
  it('was not executed, and is neither repeated nor searched for', async () => {
    expect([mayBeExecuted(errorOf()), outcomeUnknown(errorOf())]).toEqual([false, false]);
    const patching = await aClient('mergePatch', errorOf(), false);
    const queued = queueMessage(patching.client, patching.conversation, 'm-1', message);
    await expect(queued).rejects.toThrow();
    expect(patching.writes()).toBe(1);
    const deleting = await aClient('delete', errorOf(), true);
    await expect(
      deleteOne(deleting.client, conversations, deleting.conversation, feed),
    ).rejects.toThrow();
  });
});
