import { newPool } from '../../../../src/gateway/limits/pools.ts';
import { StartTextReader } from '../../../../src/gateway/lookup/start-texts.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import { ApiError } from '@conversation-operator/kube/errors';
import { cachedConversation } from '../../../../src/resources/cached-conversation.ts';
import type { Conversation } from '../../../../src/resources/conversation.ts';
import { aConversation } from '../../../support/builders.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

interface Read {
  readonly name: string;
  readonly answer: (object: Conversation | Error) => void;
}

/** A reader, and an API server that answers when a test says so. */
function aReader() {
  const clock = new VirtualClock();
  const reads: Read[] = [];
  const get = (_resource: unknown, _namespace: string, name: string) =>
    new Promise<Conversation>((resolve, reject) => {
      reads.push({
        name,
        answer: (object) => (object instanceof Error ? reject(object) : resolve(object)),
      });
    });
  const reader = new StartTextReader({
    client: { get } as unknown as KubeClient,
    places: newPool('startTexts', clock),
  });
  const settle = () => clock.settle();
  return { reader, reads, settle, clock };
}

const ofOwner = (owner: string, name: string, text = 'Say hello.'): Conversation =>
  aConversation({
    name,
    spec: { owner, initialMessage: { role: 'user', content: [{ type: 'text', text }], run: true } },
  });
const textOf = (texts: Awaited<ReturnType<StartTextReader['of']>>) =>
  texts?.message?.content[0]?.text;

describe('the texts of starts', () => {
  it('are read once for everybody who asks, and then known', async () => {
    const { reader, reads, settle } = aReader();
    const conversation = ofOwner('alice', 'one');
    const cached = cachedConversation(conversation);
    const asked = [reader.of(cached), reader.of(cached)];
    await settle();
    expect(reads).toHaveLength(1);
    reads[0]?.answer(conversation);
    expect((await Promise.all(asked)).map(textOf)).toEqual(['Say hello.', 'Say hello.']);
    expect(textOf(await reader.of(cached))).toBe('Say hello.');
    expect(reads).toHaveLength(1);
  });

  it('need no read where the object was at hand', async () => {
    const { reader, reads } = aReader();
    const conversation = ofOwner('alice', 'one');
    reader.keep(conversation);
    expect(textOf(await reader.of(cachedConversation(conversation)))).toBe('Say hello.');
    expect(reads).toHaveLength(0);
  });

  it('are read again for another version of the spec', async () => {
    const { reader, reads, settle } = aReader();
    const conversation = ofOwner('alice', 'one');
    reader.keep(conversation);
    const edited = { ...conversation, metadata: { ...conversation.metadata, generation: 2 } };
    void reader.of(cachedConversation(edited));
    await settle();
    expect(reads).toHaveLength(1);
  });

  it.each<[string, Conversation | Error]>([
    ['is gone', new ApiError(404, { reason: 'NotFound' })],
    [
      'has made room for another of its name',
      {
        ...ofOwner('alice', 'one'),
        metadata: { ...ofOwner('alice', 'one').metadata, uid: 'other' },
      },
    ],
  ])('are none where the conversation %s', async (_case, answer) => {
    const { reader, reads, settle } = aReader();
    const asked = reader.of(cachedConversation(ofOwner('alice', 'one')));
    await settle();
    reads[0]?.answer(answer);
    expect(await asked).toBeUndefined();
  });

  it('are asked for again after a read that failed', async () => {
    const { reader, reads, settle } = aReader();
    const conversation = ofOwner('alice', 'one');
    const asked = reader.of(cachedConversation(conversation));
    await settle();
    reads[0]?.answer(new ApiError(503, {}));
    await expect(asked).rejects.toThrow(ApiError);
    const again = reader.of(cachedConversation(conversation));
    await settle();
    reads[1]?.answer(conversation);
    expect(textOf(await again)).toBe('Say hello.');
  });

  it("of one owner leave room for others' reads", async () => {
    const { reader, reads, settle } = aReader();
    const asked = Array.from({ length: 50 }, (_, index) =>
      reader.of(cachedConversation(ofOwner('alice', `a${index}`))),
    );
    await settle();
    expect(reads.map(({ name }) => name)).toEqual(['a0', 'a1', 'a2', 'a3']);
    void reader.of(cachedConversation(ofOwner('bob', 'b')));
    await settle();
    expect(reads.at(-1)?.name).toBe('b');
    for (let index = 0; index <= 50; index++) {
      reads[index]?.answer(ofOwner('alice', reads[index]?.name ?? ''));
      await settle();
    }
    expect((await Promise.all(asked)).map(textOf)).toHaveLength(50);
  });

  it('take no more than a share of the memory', async () => {
    const { reader, reads, settle } = aReader();
    const kept = ofOwner('bob', 'b');
    reader.keep(kept);
    for (let index = 0; index < 30; index++)
      reader.keep(ofOwner('alice', `a${index}`, 'x'.repeat(250_000)));
    expect(textOf(await reader.of(cachedConversation(kept)))).toBe('Say hello.');
    void reader.of(cachedConversation(ofOwner('alice', 'a0')));
    await settle();
    expect(reads.map(({ name }) => name)).toEqual(['a0']);
  });
});
