import type { KubeClient } from '../src/client.ts';
import { ApiError } from '../src/errors.ts';
import { EventRecorder, type EventRecorderOptions } from '../src/events.ts';
import type { KubeEvent } from '../src/core.ts';
import { recordingLogger } from '../../../test/support/recording-logger.ts';
import { VirtualClock } from '../../../test/support/virtual-clock.ts';
import { aThing } from './things.ts';

/** Keeps Events as an API server does; `delayMs` is how long a call takes. */
function aRecorder({
  delayMs = 0,
  ...options
}: { delayMs?: number } & Partial<EventRecorderOptions> = {}) {
  const clock = new VirtualClock();
  const { logger, lines } = recordingLogger();
  const stored = new Map<string, KubeEvent>();
  const calls: string[] = [];
  const faults: Error[] = [];
  const called = async (verb: string, signal: AbortSignal | undefined): Promise<void> => {
    calls.push(verb);
    if (delayMs > 0) {
      await new Promise<void>((resolve, reject) => {
        clock.after(delayMs, resolve);
        signal?.addEventListener('abort', () => reject(signal.reason as Error));
      });
    }
    const fault = faults.shift();
    if (fault !== undefined) throw fault;
  };
  const client = {
    create: async (_resource: unknown, event: KubeEvent, options?: { signal?: AbortSignal }) => {
      await called('create', options?.signal);
      stored.set(event.metadata.name, event);
      return event;
    },
    mergePatch: async (
      _resource: unknown,
      _namespace: string,
      name: string,
      patch: object,
      options?: { signal?: AbortSignal },
    ) => {
      await called('patch', options?.signal);
      const event = stored.get(name);
      if (event === undefined) throw new ApiError(404, { reason: 'NotFound' });
      stored.set(name, { ...event, ...patch });
      return event;
    },
  } as unknown as KubeClient;
  let drawn = 0;
  const recorder = new EventRecorder({
    client,
    component: 'test',
    clock,
    random: () => ++drawn / 1000,
    logger,
    ...options,
  });
  return { clock, recorder, stored, calls, faults, lines };
}

const paused = { type: 'Normal', reason: 'Paused', message: 'paused to make room' } as const;

describe('EventRecorder', () => {
  it('writes an Event with a name once, also where another process has written it', async () => {
    const { clock, recorder, stored, faults, calls, lines } = aRecorder();
    const named = { ...paused, name: 'the-one' };
    faults.push(new ApiError(409, { reason: 'AlreadyExists' }));
    recorder.record(aThing(), named);
    await clock.settle();
    expect([calls, stored.size, lines]).toEqual([['create'], 0, []]);
    const other = aRecorder();
    other.recorder.record(aThing(), named);
    await other.clock.settle();
    expect([...other.stored.keys()]).toEqual(['the-one']);
  });

  it('writes an Event about the object', async () => {
    const { clock, recorder, stored } = aRecorder();
    recorder.record(aThing(), paused);
    await clock.settle();
    expect([...stored.values()]).toEqual([
      {
        apiVersion: 'v1',
        kind: 'Event',
        metadata: {
          namespace: 'default',
          name: expect.stringMatching(/^one\.[0-9a-f]{12}$/) as unknown,
        },
        involvedObject: {
          apiVersion: 'example.com/v1',
          kind: 'Thing',
          namespace: 'default',
          name: 'one',
          uid: 'uid-one',
          resourceVersion: '1',
        },
        type: 'Normal',
        reason: 'Paused',
        message: 'paused to make room',
        source: { component: 'test' },
        reportingComponent: 'test',
        reportingInstance: 'test',
        firstTimestamp: '2030-01-01T00:00:00Z',
        lastTimestamp: '2030-01-01T00:00:00Z',
        count: 1,
      },
    ]);
  });

  it('counts an event that repeats instead of writing it again', async () => {
    const { clock, recorder, stored } = aRecorder();
    for (let count = 0; count < 3; count++) {
      recorder.record(aThing({ resourceVersion: String(count) }), paused);
      await clock.advance(1000);
    }
    recorder.record(aThing(), { ...paused, message: 'paused by hand' });
    await clock.settle();
    expect([...stored.values()].map(({ count, lastTimestamp }) => [count, lastTimestamp])).toEqual([
      [3, '2030-01-01T00:00:02Z'],
      [1, '2030-01-01T00:00:03Z'],
    ]);
  });

  it('counts an event that repeats while it waits or is written', async () => {
    const { clock, recorder, stored, calls } = aRecorder({ delayMs: 5_000 });
    for (let count = 0; count < 3; count++) recorder.record(aThing(), paused);
    for (let count = 0; count < 2; count++) {
      await clock.advance(1_000);
      recorder.record(aThing(), paused);
    }
    await clock.advance(20_000);
    expect(calls).toEqual(['create', 'patch']);
    expect([...stored.values()].map(({ count, lastTimestamp }) => [count, lastTimestamp])).toEqual([
      [5, '2030-01-01T00:00:02Z'],
    ]);
  });

  it('writes each event of 60 starts a second of one owner, at 50 ms a call', async () => {
    const { clock, recorder, stored } = aRecorder({ delayMs: 50, shareOf: () => 'alice' });
    for (let count = 0; count < 1200; count++) {
      recorder.record(aThing({ name: `start-${count}` }), paused);
      await clock.advance(1000 / 60);
    }
    await clock.advance(1000);
    expect(stored.size).toBe(1200);
  });

  it('writes an event anew that the server has forgotten', async () => {
    const { clock, recorder, stored, calls } = aRecorder();
    recorder.record(aThing(), paused);
    await clock.settle();
    stored.clear();
    recorder.record(aThing(), paused);
    await clock.settle();
    expect({ calls, count: [...stored.values()][0]?.count }).toEqual({
      calls: ['create', 'patch', 'create'],
      count: 1,
    });
  });

  it('lets one object have 25 events at once and one more every five minutes, and others theirs', async () => {
    const { clock, recorder, calls } = aRecorder();
    const shout = async () => {
      for (let count = 0; count < 40; count++)
        recorder.record(aThing(), { ...paused, message: `no. ${count}` });
      await clock.settle();
    };
    await shout();
    expect(calls).toHaveLength(25);
    await clock.advance(600_000);
    await shout();
    expect(calls).toHaveLength(27);
    recorder.record(aThing({ name: 'two' }), paused);
    await clock.settle();
    expect(calls).toHaveLength(28);
  });

  it('writes an event that has to be known also of an object that has had too many', async () => {
    const { clock, recorder, stored } = aRecorder();
    for (let count = 0; count < 40; count++)
      recorder.record(aThing(), { ...paused, message: `no. ${count}` });
    recorder.record(aThing(), { ...paused, message: 'deleted soon', essential: true });
    await clock.settle();
    expect([...stored.values()].map(({ message }) => message)).toContain('deleted soon');
    expect(stored.size).toBe(26);
  });

  it('writes of one object no more than 25 events at once that have to be known, and one more every five minutes', async () => {
    const { clock, recorder, stored } = aRecorder();
    const record = (message: string) =>
      recorder.record(aThing(), { ...paused, message, essential: true });
    for (let count = 0; count < 40; count++) record(`no. ${count}`);
    await clock.settle();
    expect(stored.size).toBe(25);
    await clock.advance(300_000);
    record('one more');
    record('too many again');
    await clock.settle();
    expect([...stored.values()].slice(25).map(({ message }) => message)).toEqual(['one more']);
  });

  it('throws nothing and continues when an event can not be written', async () => {
    const { clock, recorder, stored, faults, lines } = aRecorder();
    faults.push(new ApiError(403, { reason: 'Forbidden' }));
    recorder.record(aThing(), paused);
    recorder.record(aThing({ name: 'two' }), paused);
    await clock.settle();
    expect(stored.size).toBe(1);
    expect(lines.map(({ level, message }) => [level, message])).toEqual([
      ['debug', 'Event was not written'],
    ]);
  });

  it('drops what is more than its buffer holds', async () => {
    const { clock, recorder, calls, lines } = aRecorder();
    for (let count = 0; count < 2100; count++)
      recorder.record(aThing({ name: `thing-${count}` }), paused);
    await clock.settle();
    expect({
      written: calls.length,
      dropped: lines.filter(({ message }) => message === 'Event is dropped').length,
    }).toEqual({ written: 2000, dropped: 100 });
  });

  it('drops what is more than one share of its buffer holds, and keeps room for the others', async () => {
    const { clock, recorder, calls, stored } = aRecorder({
      shareOf: ({ metadata }) => metadata.name.split('-')[0] ?? '',
    });
    for (let count = 0; count < 900; count++)
      recorder.record(aThing({ name: `many-${count}` }), paused);
    recorder.record(aThing({ name: 'one-1' }), paused);
    await clock.settle();
    expect(calls.length).toBe(501);
    expect([...stored.values()].some(({ involvedObject }) => involvedObject.name === 'one-1')).toBe(
      true,
    );
    // A written event no longer takes room in the queue.
    for (let count = 0; count < 900; count++)
      recorder.record(aThing({ name: `more-${count}` }), paused);
    await clock.settle();
    expect(calls.length).toBe(1001);
  });

  it('writes what waits before it is closed, but not for longer than it may take', async () => {
    const { clock, recorder, stored } = aRecorder({ delayMs: 300 });
    for (let count = 0; count < 20; count++)
      recorder.record(aThing({ name: `thing-${count}` }), paused);
    await clock.run(recorder.close(1000));
    recorder.record(aThing(), paused);
    await clock.advance(1000);
    expect({ written: stored.size, timers: clock.timers }).toEqual({ written: 12, timers: 0 });
  });
});
