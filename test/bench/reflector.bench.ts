import { setTimeout as delay } from 'node:timers/promises';
import { createCaches } from '../../src/controllers/caches.ts';
import type { WatchEvent, WatchOptions } from '@conversation-operator/kube/client';
import { systemClock } from '@conversation-operator/base/clock';
import { Controller } from '@conversation-operator/kube/controller';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import type { Transport } from '@conversation-operator/kube/transport';
import { silentLogger } from '@conversation-operator/base/logger';
import type {
  KubeObject,
  ObjectMeta,
  ResourceDefinition,
} from '@conversation-operator/kube/object';
import type { Sandbox } from '../../src/resources/sandbox.ts';
import { heapBytes, percentile, report } from './figure.ts';
import { sandboxText } from './sandbox-text.ts';

const objects = 100_000;
const rounds = 5;
const eventsPerRound = 100_000;
const chunkBytes = 65_536;
const pageSize = 500;

/** The events of a stream, round by round. */
class Feed<T> {
  #items: readonly T[] = [];
  #wake: () => void = () => undefined;

  give(items: readonly T[]): void {
    this.#items = items;
    this.#wake();
  }

  async *until(signal: AbortSignal): AsyncGenerator<T, void, undefined> {
    const stopped = () => signal.aborted;
    while (!stopped()) {
      const items = this.#items;
      this.#items = [];
      yield* items;
      if (this.#items.length > 0 || stopped()) continue;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
    }
  }
}

const bytes = new Feed<Uint8Array>();
const parsed = new Feed<WatchEvent<Sandbox>>();

/** The server's part, as the transport hands it on. */
const transport: Pick<Transport, 'call' | 'stream'> = {
  call: ({ path }) => {
    const from = Number(new URL(path, 'http://localhost').searchParams.get('continue') ?? 0);
    const to = Math.min(from + pageSize, objects);
    const items = Array.from({ length: to - from }, (_, index) =>
      sandboxText(from + index, from + index + 1),
    ).join(',');
    const next = to < objects ? `,"continue":"${to}"` : '';
    return Promise.resolve(
      JSON.parse(
        `{"metadata":{"resourceVersion":"${objects}"${next}},"items":[${items}]}`,
      ) as unknown,
    );
  },
  stream: ({ signal }) => Promise.resolve(bytes.until(signal)),
};

/** A client whose watch costs nothing. */
class ReadyClient extends HttpKubeClient {
  override watch<T extends KubeObject>(_resource: ResourceDefinition<T>, { signal }: WatchOptions) {
    return parsed.until(signal) as unknown as AsyncGenerator<WatchEvent<T>, void, undefined>;
  }
}

let version = objects;
const newEvents = (): readonly string[] =>
  Array.from({ length: eventsPerRound }, (_, index) => {
    version++;
    return `{"type":"MODIFIED","object":${sandboxText((index * 7919) % objects, version)}}`;
  });

function chunksOf(events: readonly string[]): readonly Uint8Array[] {
  const all = Buffer.from(`${events.join('\n')}\n`);
  return Array.from({ length: Math.ceil(all.byteLength / chunkBytes) }, (_, index) =>
    all.subarray(index * chunkBytes, (index + 1) * chunkBytes),
  );
}

/** The client has left them out already. */
function parsedEvents(events: readonly string[]): readonly WatchEvent<Sandbox>[] {
  return events.map((text) => {
    const { type, object } = JSON.parse(text) as { type: 'MODIFIED'; object: Sandbox };
    const { managedFields, ...metadata } = object.metadata as Sandbox['metadata'] &
      Pick<ObjectMeta, 'managedFields'>;
    return { type, object: { ...object, metadata } };
  });
}

/**
 * Processor time of all threads, in microseconds: the work of one core, garbage collection
 * included, whatever else the machine does.
 */
function cpuTime(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}
const perSecond = (began: number): number => eventsPerRound / ((cpuTime() - began) / 1_000_000);
/** Everything that can go has gone, and no thread is still about it. */
async function tidied(): Promise<void> {
  heapBytes();
  await delay(100);
}
const runtime = { clock: systemClock, random: Math.random, logger: silentLogger };

/** The operator's cache of Sandboxes, and a handler that fills a queue. */
async function startCache(client: HttpKubeClient) {
  const { sandboxes } = createCaches({ client, namespace: 'agents', ...runtime });
  const controller = new Controller({
    name: 'bench',
    reconcile: () => Promise.resolve(undefined),
    ...runtime,
  });
  let left = 0;
  let done: () => void = () => undefined;
  sandboxes.start();
  await sandboxes.synced();
  sandboxes.addHandler({
    updated: ({ metadata: { namespace, name } }) => {
      controller.enqueue({ namespace, name });
      if (--left === 0) done();
    },
  });
  /** Events a second of CPU time, from `give` until the handler has received all of them. */
  const rate = async (give: () => void): Promise<number> => {
    await tidied();
    const all = new Promise<void>((resolve) => (done = resolve));
    left = eventsPerRound;
    const began = cpuTime();
    give();
    await all;
    return perSecond(began);
  };
  return { sandboxes, rate };
}

const empty = heapBytes();
const fromBytes = await startCache(new HttpKubeClient({ transport }));
report({
  what: `heap for each of ${objects.toLocaleString('en')} Sandboxes`,
  value: (heapBytes() - empty) / objects / 1024,
  unit: 'KiB',
  target: { atMost: 6 },
});
const rates = { bytes: [] as number[], parsed: [] as number[], json: [] as number[] };
for (let round = 0; round < rounds; round++) {
  const events = newEvents();
  const chunks = chunksOf(events);
  rates.bytes.push(await fromBytes.rate(() => bytes.give(chunks)));
  await tidied();
  const began = cpuTime();
  for (const text of events) JSON.parse(text);
  rates.json.push(perSecond(began));
}
await fromBytes.sandboxes.stop();

const ready = await startCache(new ReadyClient({ transport }));
for (let round = 0; round < rounds; round++) {
  const events = parsedEvents(newEvents());
  rates.parsed.push(await ready.rate(() => parsed.give(events)));
}
await ready.sandboxes.stop();

const median = {
  bytes: percentile(rates.bytes, 0.5),
  parsed: percentile(rates.parsed, 0.5),
  json: percentile(rates.json, 0.5),
};
const target = { atLeast: 100_000 };
report({
  what: 'parsed events to store, index, schema check and handler',
  value: median.parsed,
  unit: '/s',
  target,
});
report({ what: 'the same from the bytes of a socket on', value: median.bytes, unit: '/s', target });
report({ what: 'JSON.parse alone of these events', value: median.json, unit: '/s' });
report({
  what: 'from bytes to store takes as long as JSON.parse alone',
  value: median.json / median.bytes,
  unit: 'times',
});
report({ what: 'bytes of one event', value: sandboxText(1, 1).length, unit: 'B' });
