import { RecentAnswers } from '../../../../src/controllers/conversation/recent-answers.ts';
import { conversations, type Conversation } from '../../../../src/resources/conversation.ts';
import { aStoredConversation, noonMs } from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const { signal } = new AbortController();

/** A conversation whose status was written, and the reads of it since. */
async function written() {
  const clock = new VirtualClock(noonMs);
  const client = new FakeKubeClient();
  const reads: string[] = [];
  client.fault = ({ verb }) => {
    if (verb === 'get') reads.push(verb);
    return undefined;
  };
  const answers = new RecentAnswers({ client, clock });
  const answer = await client.create(conversations, aStoredConversation());
  answers.remember(answer, 1_000);
  return { clock, client, reads, answers, answer };
}

const changed = ({ metadata, ...conversation }: Conversation, change: object): Conversation => ({
  ...conversation,
  metadata: { ...metadata, ...change },
});

describe('the answer to a status write', () => {
  it('replaces a read of the same version within three seconds', async () => {
    const { answers, answer, reads } = await written();
    expect(await answers.conversation(answer, signal)).toBe(answer);
    expect(reads).toEqual([]);
  });

  it.each<[string, (scene: Awaited<ReturnType<typeof written>>) => Promise<unknown>]>([
    [
      'after three seconds',
      async ({ answers, answer, clock }) => {
        await clock.advance(3_000);
        return answers.conversation(answer, signal);
      },
    ],
    [
      'once the cache shows another version',
      ({ answers, answer }) =>
        answers.conversation(changed(answer, { resourceVersion: '999' }), signal),
    ],
    [
      'once the cache shows the deletion',
      ({ answers, answer }) =>
        answers.conversation(
          changed(answer, { deletionTimestamp: answer.metadata.creationTimestamp }),
          signal,
        ),
    ],
    [
      'the second time',
      async ({ answers, answer }) => {
        await answers.conversation(answer, signal);
        return answers.conversation(answer, signal);
      },
    ],
    [
      'where it is larger than all that is remembered',
      ({ answers, answer }) => {
        answers.remember(answer, 5 * 2 ** 20);
        return answers.conversation(answer, signal);
      },
    ],
  ])('does not replace a read %s', async (_when, read) => {
    const scene = await written();
    expect(await read(scene)).toEqual(scene.answer);
    expect(scene.reads).toEqual(['get']);
  });
});
