import { countedUse, HourlyLimit } from '../../../../src/gateway/limits/host-budget.ts';
import { conversations } from '../../../../src/resources/conversation.ts';
import { aStoredConversation, noonMs } from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const minute = 60_000;

describe('a limit of an hour', () => {
  const at = (minutes: number) => new Date(noonMs + minutes * minute).toISOString();
  const use = (minutes: number, count: number, previousCount = 0) => ({
    startTime: at(minutes),
    count,
    previousCount,
  });

  it.each([
    ['begins with the first action', undefined, 0, use(0, 1)],
    ['counts on within the hour', use(0, 1), 59, use(0, 2)],
    ['has a maximum', use(0, 4), 59, undefined],
    ['counts most of the hour before at the begin of the next', use(0, 4), 60, undefined],
    ['counts half of it in the middle', use(0, 4), 90, use(60, 1, 4)],
    ['reaches the maximum with that half', use(60, 2, 4), 90, undefined],
    ['begins anew after two hours', use(0, 4), 120, use(120, 1)],
    ['keeps the count where the clock of another replica is ahead', use(1, 3), 0, use(0, 4)],
    ['keeps the maximum there too', use(1, 4), 0, undefined],
    [
      'takes a time that is none for the end of an hour',
      { ...use(0, 4), startTime: 'x' },
      0,
      use(0, 1),
    ],
  ])('%s', (_sentence, before, minutes, after) => {
    const nowMs = noonMs + minutes * minute;
    expect(countedUse(before, { maxPerHour: 4, nowMs })).toEqual(after);
  });

  it('is one of a conversation over replicas, for each action', async () => {
    const client = new FakeKubeClient();
    const clock = new VirtualClock(noonMs);
    const conversation = await client.create(
      conversations,
      aStoredConversation({ name: 'c-1', spec: {} }),
    );
    const [one, two] = [new HourlyLimit({ client, clock }), new HourlyLimit({ client, clock })];
    const taken = [];
    for (const limit of [one, two, one, two])
      taken.push(await limit.take(conversation, 'pushes', 3));
    expect(taken).toEqual([true, true, true, false]);
    expect(await two.take(conversation, 'pullRequests', 3)).toBe(true);
    await clock.advance(120 * minute);
    expect(await one.take(conversation, 'pushes', 3)).toBe(true);
  });

  it('is not of a conversation that was created anew under the same name', async () => {
    const client = new FakeKubeClient();
    const stored = await client.create(
      conversations,
      aStoredConversation({ name: 'c-1', spec: {} }),
    );
    const before = { ...stored, metadata: { ...stored.metadata, uid: 'another' } };
    const limit = new HourlyLimit({ client, clock: new VirtualClock(noonMs) });
    await expect(limit.take(before, 'pushes', 3)).rejects.toMatchObject({ code: 'not-found' });
  });
});
