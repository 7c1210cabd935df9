import * as fc from 'fast-check';
import { ApiError, TransportError } from '../src/errors.ts';
import { Reflector, type Handler } from '../src/reflector.ts';
import { recordingLogger } from '../../../test/support/recording-logger.ts';
import { VirtualClock } from '../../../test/support/virtual-clock.ts';
import { ScriptedServer } from './scripted-server.ts';
import { things, type Thing } from './things.ts';

function aReflector() {
  const clock = new VirtualClock();
  const server = new ScriptedServer(clock);
  const { logger, lines } = recordingLogger();
  const reflector = new Reflector({
    client: server.client,
    resource: things,
    indexers: { color: ({ spec }) => spec.colors },
    clock,
    random: () => 0.5,
    logger,
  });
  return { clock, server, reflector, lines };
}

/** Writes down what a handler hears, and fails when it is no possible history of an object. */
class Witness implements Handler<Thing> {
  readonly present = new Map<string, Thing>();
  readonly gone = new Set<string>();
  readonly heard: string[] = [];

  added(thing: Thing): void {
    const { uid, name } = thing.metadata;
    this.heard.push(`added ${name}`);
    expect(this.present.has(uid) || this.gone.has(uid)).toBe(false);
    expect([...this.present.values()].map((other) => other.metadata.name)).not.toContain(name);
    this.present.set(uid, thing);
  }

  updated(thing: Thing, old: Thing): void {
    const { uid, name, resourceVersion } = thing.metadata;
    this.heard.push(`updated ${name}`);
    expect(this.present.get(uid)).toBe(old);
    expect(Number(resourceVersion)).toBeGreaterThan(Number(old.metadata.resourceVersion));
    this.present.set(uid, thing);
  }

  deleted(thing: Thing): void {
    const { uid, name } = thing.metadata;
    this.heard.push(`deleted ${name}`);
    expect(this.present.get(uid)).toBe(thing);
    this.present.delete(uid);
    // A thing that is refused for a while and then taken again has the same uid: it was never gone
    // from the server.
    if (thing.spec.valid && !this.refusedOnes.has(uid)) this.gone.add(uid);
  }

  readonly refusedOnes = new Set<string>();
}

const names = fc.constantFrom('one', 'two', 'three', 'four');
const script = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        do: fc.constant('put' as const),
        name: names,
        valid: fc.constantFrom(true, true, true, false),
      }),
    },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('delete' as const), name: names }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('replace' as const), name: names }) },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constantFrom('bookmark', 'compact', 'end', 'reset', 'refuse', 'expire', 'deafen'),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant('fail' as const),
        times: fc.integer({ min: 1, max: 4 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant('slow' as const),
        ms: fc.integer({ min: 0, max: 3000 }),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant('advance' as const),
        ms: fc.integer({ min: 0, max: 5000 }),
      }),
    },
  ),
  { maxLength: 50 },
);
type Step = typeof script extends fc.Arbitrary<(infer S)[]> ? S : never;

async function perform(
  step: Step,
  server: ScriptedServer,
  clock: VirtualClock,
  witness: Witness,
): Promise<void> {
  switch (step.do) {
    case 'put': {
      const { metadata } = server.put(step.name, {
        valid: step.valid,
        colors: [step.name.length > 3 ? 'red' : 'blue'],
      });
      if (!step.valid) witness.refusedOnes.add(metadata.uid);
      break;
    }
    case 'delete':
      server.delete(step.name);
      break;
    case 'replace':
      server.delete(step.name);
      server.put(step.name);
      break;
    case 'bookmark':
      server.bookmark();
      break;
    case 'compact':
      server.compact();
      break;
    case 'end':
      server.endWatches('order');
      break;
    case 'reset':
      server.endWatches(new TransportError('reset'));
      break;
    case 'refuse':
      server.endWatches(new ApiError(403, { reason: 'Forbidden' }));
      break;
    case 'expire':
      server.expireWatches();
      break;
    case 'deafen':
      server.deafenWatches();
      break;
    case 'fail':
      server.failingCalls = step.times;
      break;
    case 'slow':
      server.listMs = step.ms;
      break;
    case 'advance':
      await clock.advance(step.ms);
      break;
  }
}

describe('Reflector', () => {
  it('comes to hold what the server holds, and reports a possible history, whatever happens', async () => {
    await fc.assert(
      fc.asyncProperty(script, async (steps) => {
        const { clock, server, reflector, lines } = aReflector();
        const witness = new Witness();
        reflector.addHandler(witness);
        reflector.start();
        for (const step of steps) {
          await perform(step, server, clock, witness);
          expect(server.openWatches).toBeLessThanOrEqual(1);
        }
        await clock.advance(400_000);
        const expected = server.things.filter(({ spec }) => spec.valid);
        expect(new Set(reflector.store.list())).toEqual(new Set(expected));
        expect(new Set(witness.present.values())).toEqual(new Set(expected));
        expect(new Set(reflector.store.byIndex('color', 'red'))).toEqual(
          new Set(expected.filter(({ spec }) => spec.colors[0] === 'red')),
        );
        await reflector.stop();
        expect({ timers: clock.timers, openWatches: server.openWatches }).toEqual({
          timers: 0,
          openWatches: 0,
        });
        // The reflector only logs an error of a handler.
        expect(lines.filter(({ message }) => message === 'Handler failed')).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });

  it('has synced once the first list is in the store and handlers know of it', async () => {
    const { clock, server, reflector } = aReflector();
    server.put('one');
    const witness = new Witness();
    reflector.addHandler(witness);
    const synced = reflector.synced();
    expect(reflector.hasSynced).toBe(false);
    reflector.start();
    await clock.run(synced);
    expect({ hasSynced: reflector.hasSynced, heard: witness.heard }).toEqual({
      hasSynced: true,
      heard: ['added one'],
    });
    await reflector.stop();
  });

  it('notifies a late handler of each object, once', async () => {
    const { clock, server, reflector } = aReflector();
    server.put('one');
    reflector.start();
    const late = new Witness();
    // Added in the middle of a notification: what that is about is in the store already.
    reflector.addHandler({ added: () => void reflector.addHandler(late) });
    await clock.settle();
    expect(late.heard).toEqual(['added one']);
    await reflector.stop();
  });

  it('notifies no handler that was removed', async () => {
    const { clock, server, reflector } = aReflector();
    const witness = new Witness();
    const remove = reflector.addHandler(witness);
    reflector.start();
    remove();
    server.put('one');
    await clock.settle();
    expect(witness.heard).toEqual([]);
    await reflector.stop();
  });

  it('continues when a handler throws, and notifies the others', async () => {
    const { clock, server, reflector, lines } = aReflector();
    reflector.addHandler({
      added: () => {
        throw new Error('broken handler');
      },
    });
    const witness = new Witness();
    reflector.addHandler(witness);
    reflector.start();
    await clock.settle();
    server.put('one');
    server.put('two');
    await clock.settle();
    expect(witness.heard).toEqual(['added one', 'added two']);
    expect(lines.filter(({ message }) => message === 'Handler failed')).toHaveLength(2);
    await reflector.stop();
  });

  it('takes an object that was created again for another one, after a break too', async () => {
    const { clock, server, reflector } = aReflector();
    const witness = new Witness();
    reflector.addHandler(witness);
    reflector.start();
    server.put('one');
    await clock.settle();
    server.compact();
    server.delete('one');
    server.put('one');
    server.compact();
    server.expireWatches();
    await clock.advance(10_000);
    expect(witness.heard).toEqual(['added one', 'deleted one', 'added one']);
    await reflector.stop();
  });

  it('takes an object with another uid for another one, even if no event reported the end of the first', async () => {
    const { clock, server, reflector } = aReflector();
    const witness = new Witness();
    reflector.addHandler(witness);
    reflector.start();
    await clock.settle();
    server.put('one');
    server.swap('one');
    await clock.settle();
    expect(witness.heard).toEqual(['added one', 'deleted one', 'added one']);
    await reflector.stop();
  });

  it.each<[string, string, (server: ScriptedServer) => unknown]>([
    ['observed', 'an event reports', (server) => server.delete('one')],
    [
      'assumed',
      'a list lacks the object of',
      (server) => {
        server.deafenWatches();
        server.delete('one');
        server.compact();
      },
    ],
    ['assumed', 'its schema refuses', (server) => server.put('one', { valid: false })],
  ])('hands on a deletion as %s where %s it', async (expected, _case, end) => {
    const { clock, server, reflector } = aReflector();
    const heard: string[] = [];
    reflector.addHandler({ deleted: (_object, finality) => void heard.push(finality) });
    server.put('one');
    reflector.start();
    await clock.settle();
    end(server);
    await clock.advance(200_000);
    expect(heard).toEqual([expected]);
    await reflector.stop();
  });

  it('says nothing after a new list that brings nothing new', async () => {
    const { clock, server, reflector } = aReflector();
    const witness = new Witness();
    server.put('one');
    reflector.addHandler(witness);
    reflector.start();
    await clock.settle();
    server.expireWatches();
    await clock.advance(10_000);
    expect({ lists: server.lists, heard: witness.heard }).toEqual({
      lists: 2,
      heard: ['added one'],
    });
    await reflector.stop();
  });

  it('leaves out what its schema refuses, says so once, and treats what becomes so as deleted', async () => {
    const { clock, server, reflector, lines } = aReflector();
    const witness = new Witness();
    reflector.addHandler(witness);
    server.put('bad', { valid: false });
    server.put('one');
    reflector.start();
    await clock.settle();
    server.put('one', { valid: false });
    server.expireWatches();
    await clock.advance(10_000);
    expect(witness.heard).toEqual(['added one', 'deleted one']);
    expect(reflector.store.size).toBe(0);
    expect(
      lines.filter(({ level }) => level === 'warn').map(({ fields }) => fields['name']),
    ).toEqual(['bad', 'one']);
    await reflector.stop();
  });

  it('begins a watch again that has fallen silent, from where it was', async () => {
    const { clock, server, reflector } = aReflector();
    reflector.start();
    await clock.settle();
    server.deafenWatches();
    server.put('one');
    await clock.advance(149_000);
    expect(reflector.store.size).toBe(0);
    await clock.advance(5000);
    expect({ size: reflector.store.size, lists: server.lists, watches: server.watches }).toEqual({
      size: 1,
      lists: 1,
      watches: 2,
    });
    await reflector.stop();
  });

  it('says how old its news are, and whether changes may be missing', async () => {
    const { clock, server, reflector } = aReflector();
    expect(reflector.freshness).toEqual({ newsAgeMs: undefined, isInterrupted: false });
    reflector.start();
    await clock.settle();
    await clock.advance(7_000);
    expect(reflector.freshness).toEqual({ newsAgeMs: 7_000, isInterrupted: false });
    server.bookmark();
    await clock.settle();
    expect(reflector.freshness).toEqual({ newsAgeMs: 0, isInterrupted: false });
    server.endWatches(new TransportError('reset'));
    await clock.advance(5_000);
    expect(reflector.freshness).toEqual({ newsAgeMs: 5_000, isInterrupted: true });
    server.put('one');
    await clock.settle();
    expect(reflector.freshness).toEqual({ newsAgeMs: 0, isInterrupted: false });
    await reflector.stop();
  });

  it('stays with a watch that sends bookmarks', async () => {
    const { clock, server, reflector } = aReflector();
    reflector.start();
    for (let minute = 0; minute < 5; minute++) {
      await clock.advance(60_000);
      server.bookmark();
    }
    expect(server.watches).toBe(1);
    await reflector.stop();
  });

  it('continues from a bookmark when the history before it is gone', async () => {
    const { clock, server, reflector } = aReflector();
    reflector.start();
    await clock.settle();
    server.put('one');
    server.bookmark();
    server.compact();
    await clock.settle();
    server.endWatches(new TransportError('reset'));
    await clock.advance(5000);
    expect({ lists: server.lists, watches: server.watches }).toEqual({ lists: 1, watches: 2 });
    await reflector.stop();
  });

  it.each([
    [1, 'continues without a list after', 429],
    [1, 'continues without a list after', 503],
    [4, 'lists anew after', 403],
  ])('(%i lists) %s each of three watches that end with %i', async (lists, _what, status) => {
    const { clock, server, reflector } = aReflector();
    reflector.start();
    await clock.settle();
    server.put('one');
    await clock.settle();
    for (let ends = 0; ends < 3; ends++) {
      server.endWatches(new ApiError(status, { reason: 'Ended' }));
      await clock.advance(30_000);
    }
    expect({ lists: server.lists, watches: server.watches }).toEqual({ lists, watches: 4 });
    await reflector.stop();
  });

  it('waits longer after each failure, and starts small again after two minutes of health', async () => {
    const { clock, server, reflector, lines } = aReflector();
    server.failingCalls = 4;
    reflector.start();
    await clock.advance(60_000);
    expect(reflector.hasSynced).toBe(true);
    server.bookmark();
    await clock.advance(120_000);
    server.endWatches(new TransportError('reset'));
    await clock.settle();
    const [atStart, later] = ['The first list failed and is repeated', 'Watch is restarted'];
    const logged = lines.filter(({ message }) => message === atStart || message === later);
    expect(logged.map(({ fields }) => fields['delayMs'])).toEqual([1200, 2400, 4800, 9600, 1200]);
    // Nothing works before the first list, so an administrator has to know of its failure. A later
    // interruption is ordinary.
    expect(logged.map(({ level, message }) => [level, message])).toEqual([
      ...Array<string[]>(4).fill(['warn', atStart]),
      ['debug', later],
    ]);
    await reflector.stop();
  });

  it('does not spin when the server ends every watch at once', async () => {
    const { clock, server, reflector } = aReflector();
    reflector.start();
    const end = () => {
      server.endWatches('order');
      clock.after(10, end);
    };
    end();
    await clock.advance(60_000);
    expect(server.watches).toBeLessThan(10);
    await reflector.stop();
  });

  it.each([
    ['while it waits after a failure', (server: ScriptedServer) => (server.failingCalls = 1)],
    ['while it watches', () => undefined],
  ])('stops at once %s', async (_when, prepare) => {
    const { clock, server, reflector } = aReflector();
    prepare(server);
    reflector.start();
    await clock.settle();
    await reflector.stop();
    expect({ timers: clock.timers, openWatches: server.openWatches }).toEqual({
      timers: 0,
      openWatches: 0,
    });
  });

  it('lets no caller wait for ever for a list that will not come', async () => {
    const { reflector } = aReflector();
    const synced = reflector.synced();
    await reflector.stop();
    await expect(synced).rejects.toThrow('the reflector of things was stopped');
    await expect(
      aReflector().reflector.synced(AbortSignal.abort(new Error('enough'))),
    ).rejects.toThrow('enough');
  });
});
