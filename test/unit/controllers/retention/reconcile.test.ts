import { findCondition } from '../../../../src/resources/conditions.ts';
import type { LaterMessage } from '../../../../src/resources/conversation.ts';
import { TransportError } from '@conversation-operator/kube/errors';
import { sandboxTemplates } from '../../../../src/resources/sandbox-template.ts';
import { RetainedObjects } from '../../../support/retained-objects.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const message = (number: number): LaterMessage => ({
  number,
  id: String(number),
  role: 'user',
  content: [{ type: 'text', text: 'x' }],
  run: true,
});
const over = {
  start: { status: 'READY' as const, transitions: [] },
  executionStatus: 'finished' as const,
};

describe('the retention of a conversation', () => {
  let objects: RetainedObjects;
  beforeEach(() => {
    objects = new RetainedObjects();
  });
  afterEach(() => objects.stop());
  const kinds = () => objects.deletions.map(({ object }) => object.kind);
  const expiring = async () =>
    findCondition((await objects.conversation())?.status?.conditions, 'Expiring');

  it('announces the deletion by an Event and a condition, once, then deletes, and counts', async () => {
    objects.begin({ ttlSecondsAfterFinished: 7200 });
    await objects.becomes(over);
    await objects.pass(hourMs + 47 * minuteMs);
    expect(await expiring()).toBeUndefined();
    await objects.pass(2 * minuteMs);
    expect(await expiring()).toMatchObject({ status: 'True', reason: 'Finished' });
    expect(objects.events).toHaveLength(1);
    expect(objects.events[0]?.message).toBe((await expiring())?.message);
    await objects.pass(11 * minuteMs);
    expect(kinds()).toEqual([]);
    await objects.pass(3 * minuteMs);
    expect(kinds()).toEqual(['Conversation']);
    expect(objects.events).toHaveLength(1);
    const { values } = await objects.metrics.retentionDeletions.get();
    expect(values.map(({ labels, value }) => [labels, value])).toEqual([
      [{ kind: 'Conversation', rule: 'Finished' }, 1],
    ]);
  });

  it('does nothing to a conversation that works, nor without a setting', async () => {
    objects.begin({ ttlSecondsAfterFinished: 60 });
    await objects.pass(hourMs);
    await objects.edit({ ttlSecondsAfterFinished: undefined });
    expect([kinds(), objects.events]).toEqual([[], []]);
  });

  it.each<[string, () => Promise<void>]>([
    ['a message', () => objects.edit({ messages: [message(1)] })],
    ['a resume', () => objects.requestResume()],
    ['a longer time', () => objects.edit({ ttlSecondsAfterFinished: 360_000 })],
  ])('withdraws what it has announced after %s', async (_name, act) => {
    objects.begin({ ttlSecondsAfterFinished: 3600 });
    await objects.becomes(over);
    await objects.pause();
    await objects.pass(hourMs - minuteMs);
    expect(await expiring()).toBeDefined();
    await act();
    await objects.pass(hourMs);
    expect([kinds(), await expiring()]).toEqual([[], undefined]);
  });

  it('leaves what was used since, although the cache has not heard of it', async () => {
    objects.begin({ ttlSecondsAfterFinished: 3600 });
    await objects.becomes(over);
    await objects.pass(hourMs);
    await objects.edit({ messages: [message(1)] });
    await objects.clock.advance(hourMs);
    expect(kinds()).toEqual([]);
  });

  it('deletes nothing as long as its cache does not show the announcement', async () => {
    objects.begin({ ttlSecondsAfterFinished: 60 });
    await objects.becomes(over);
    await objects.show();
    await objects.clock.advance(hourMs);
    expect([kinds(), objects.events.length]).toEqual([[], 1]);
    await objects.pass(3 * minuteMs);
    expect(kinds()).toEqual(['Conversation']);
  });

  it('leaves a conversation that changes between its read and the deletion', async () => {
    objects.begin({ ttlSecondsAfterFinished: 3600 });
    await objects.becomes(over);
    await objects.pass(hourMs);
    const remove = objects.client.delete.bind(objects.client);
    objects.client.delete = async (...args) => {
      objects.client.delete = remove;
      await objects.edit({ messages: [message(1)] });
      return remove(...args);
    };
    await objects.pass(hourMs);
    expect(kinds()).toEqual([]);
  });

  it('leaves a sandbox that is resumed between its read and the deletion, and the conversation in it', async () => {
    objects.begin({ ttlSecondsAfterFinished: 3600 });
    await objects.becomes(over);
    await objects.pause();
    await objects.pass(hourMs);
    const remove = objects.client.delete.bind(objects.client);
    objects.client.delete = async (...args) => {
      objects.client.delete = remove;
      await objects.requestResume();
      return remove(...args);
    };
    await objects.pass(50 * minuteMs);
    expect([kinds(), await expiring()]).toEqual([[], undefined]);
  });

  it('takes the paused sandbox of a conversation with it, and the conversation also where the answer was lost', async () => {
    objects.begin({ ttlSecondsAfterFinished: 3600 });
    await objects.becomes(over);
    await objects.pass(10 * minuteMs);
    await objects.pause();
    await objects.pass(hourMs);
    const remove = objects.client.delete.bind(objects.client);
    objects.client.delete = async (...args) => {
      objects.client.delete = remove;
      await remove(...args);
      throw new TransportError('the answer is lost');
    };
    await objects.pass(5 * minuteMs);
    expect(kinds()[0]).toBe('Sandbox');
    await objects.pass(15 * minuteMs);
    expect(kinds()).toEqual(['Sandbox', 'Conversation']);
  });

  it('leaves a sandbox alone that another conversation has joined', async () => {
    objects.begin({ ttlSecondsAfterFinished: 60 }, { paused: '1m' });
    await objects.becomes(over);
    await objects.pause();
    await objects.join();
    await objects.pass(hourMs);
    expect(kinds()).toEqual(['Conversation']);
  });

  it('announces the deletion also where the answer to the announcement was lost', async () => {
    objects.begin({ ttlSecondsAfterFinished: 60 });
    await objects.becomes(over);
    const update = objects.client.updateStatus.bind(objects.client);
    objects.client.updateStatus = async (...args) => {
      objects.client.updateStatus = update;
      await update(...args);
      throw new TransportError('the answer is lost');
    };
    await objects.pass(10 * minuteMs);
    expect([kinds(), objects.events.length]).toEqual([['Conversation'], 1]);
  });

  it('announces once where time passes between its read and the announcement', async () => {
    objects.begin({ ttlSecondsAfterFinished: 60 });
    await objects.becomes(over);
    await objects.pass(hourMs - 10_000, hourMs);
    await objects.edit({ ttlSecondsAfterFinished: 59 });
    const now = objects.clock.now.bind(objects.clock);
    let ticks = 0;
    objects.clock.now = () => now() + ++ticks;
    await objects.pass(minuteMs);
    expect(objects.events.slice(1)).toHaveLength(1);
  });

  it('deletes nothing that only a jump of the clock makes due', async () => {
    objects.begin({ ttlSecondsAfterFinished: 60 });
    await objects.becomes(over);
    await objects.pass(10_000);
    objects.clock.jumpWallClock(365 * 24 * hourMs);
    await objects.pass(110_000);
    objects.clock.jumpWallClock(-365 * 24 * hourMs);
    await objects.pass(60_000);
    expect(kinds()).toEqual([]);
    await objects.pass(10 * minuteMs);
    expect(kinds()).toEqual(['Conversation']);
  });

  it('takes the time anew in another process, and announces nothing twice', async () => {
    objects.begin({ ttlSecondsAfterFinished: 600 });
    await objects.becomes(over);
    await objects.pass(11 * minuteMs);
    await objects.restart();
    await objects.pass(90_000);
    expect(kinds()).toEqual([]);
    await objects.pass(minuteMs);
    expect([kinds(), objects.events.length]).toEqual([['Conversation'], 1]);
  });

  it('takes the time anew for what was not due in between', async () => {
    objects.begin({ ttlSecondsAfterFinished: 60 });
    await objects.becomes(over);
    await objects.pass(170_000);
    await objects.edit({ ttlSecondsAfterFinished: 3600 });
    await objects.pass(10_000);
    await objects.edit({ ttlSecondsAfterFinished: 60 });
    await objects.pass(120_000);
    expect(kinds()).toEqual([]);
    await objects.pass(2 * minuteMs);
    expect(kinds()).toEqual(['Conversation']);
  });

  it('takes the time anew for another announcement, also where the cache shows that late', async () => {
    objects.begin({ ttlSecondsAfterFinished: 60 });
    await objects.becomes(over);
    await objects.pass(170_000);
    await objects.edit({ ttlSecondsAfterFinished: 59 });
    await objects.clock.advance(80_000);
    expect(objects.events).toHaveLength(2);
    await objects.show();
    await objects.clock.advance(minuteMs);
    expect(kinds()).toEqual([]);
    await objects.pass(2 * minuteMs);
    expect(kinds()).toEqual(['Conversation']);
  });

  it('goes by the template, and hears of a change of it', async () => {
    objects.begin({}, { finished: '1000h' });
    await objects.becomes(over);
    await objects.pass(minuteMs);
    await objects.client.mergePatch(sandboxTemplates, 'default', 'default', {
      spec: { retention: { finished: '1m' } },
    });
    await objects.pass(5 * minuteMs);
    expect(kinds()).toEqual(['Conversation']);
  });

  it('takes a paused sandbox also where the cache of conversations follows that of sandboxes', async () => {
    objects.begin({}, { paused: '1m' });
    await objects.becomes({ start: { status: 'PREPARING_REPOSITORY', transitions: [] } });
    await objects.show();
    await objects.becomes(over);
    await objects.pause();
    await objects.show({ conversations: false });
    await objects.show({ sandboxes: false });
    await objects.clock.advance(minuteMs);
    expect(objects.events).toHaveLength(1);
  });

  it('takes a paused sandbox first, and the record later', async () => {
    objects.begin({}, { paused: '1h', records: '3h' });
    await objects.becomes(over);
    await objects.pause();
    await objects.pass(hourMs + 5 * minuteMs);
    expect(kinds()).toEqual(['Sandbox']);
    expect(objects.events.map(({ kind }) => kind)).toEqual(['Conversation']);
    await objects.becomes({ sandboxStatus: 'MISSING' });
    await objects.pass(hourMs);
    expect(kinds()).toEqual(['Sandbox']);
    await objects.pass(hourMs);
    expect(kinds()).toEqual(['Sandbox', 'Conversation']);
  });
});
