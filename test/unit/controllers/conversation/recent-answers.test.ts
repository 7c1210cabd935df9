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

describe('a write of the last second', () => {
  /** A write that was sent at noon and has version 100, and answers that know it. */
  function scene(version = '100') {
    const clock = new VirtualClock(noonMs);
    const answers = new RecentAnswers({ client: new FakeKubeClient(), clock });
    const of = (resourceVersion: string, uid = 'uid-of-start') =>
      changed(aStoredConversation(), { resourceVersion, uid });
    answers.written(of(version, 'uid-of-other'), clock.monotonic());
    return { answers, clock, of };
  }

  it.each([
    ['a later version, also where it has more digits', '1000', true],
    ['no earlier version, however late the cache shows it', '99', false],
    ['not its own version', '100', false],
  ])('proves the age of %s', (_sentence, version, isProven) => {
    const { answers, of } = scene();
    expect(answers.isJustStored(of(version))).toBe(isProven);
  });

  it('proves nothing after a second', async () => {
    const { answers, clock, of } = scene();
    await clock.advance(1_001);
    expect(answers.isJustStored(of('101'))).toBe(false);
  });

  it('proves each version once, because the outcome of the first attempt may be unknown', () => {
    const { answers, of } = scene();
    expect(answers.isJustStored(of('101'))).toBe(true);
    expect(answers.isJustStored(of('101'))).toBe(false);
    expect(answers.isJustStored(of('101', 'uid-of-third'))).toBe(true);
    expect(answers.isJustStored(of('102'))).toBe(true);
  });

  it('counts from when it was sent, because the API server may have executed it at once', async () => {
    const { answers, clock, of } = scene('900');
    const sentAt = clock.monotonic();
    await clock.advance(1_001);
    answers.written(of('901'), sentAt);
    expect(answers.isJustStored(of('902'))).toBe(false);
  });

  it('is followed by others, of which the oldest recent one proves most', async () => {
    const { answers, clock, of } = scene();
    for (let version = 101; version < 200; version++) {
      await clock.advance(20);
      answers.written(of(String(version), 'uid-of-other'), clock.monotonic());
    }
    expect(answers.isJustStored(of('145'))).toBe(false);
    expect(answers.isJustStored(of('155'))).toBe(true);
  });
});
