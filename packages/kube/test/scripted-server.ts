import type { KubeClient, ListResult, WatchEvent, WatchOptions } from '../src/client.ts';
import { sleep, type Clock } from '@conversation-operator/base/clock';
import { ApiError, TransportError } from '../src/errors.ts';
import { aThing, type Thing } from './things.ts';

interface Watcher {
  readonly events: WatchEvent<Thing>[];
  deaf: boolean;
  /** The end of the stream, after its events. */
  end: Error | 'order' | undefined;
  wake: () => void;
}

const expired = () =>
  new ApiError(410, { code: 410, reason: 'Expired', message: 'too old resource version' });

/** The list and watch of an API server, with every fault that a reflector may meet. */
export class ScriptedServer {
  readonly #clock: Clock;
  readonly #things = new Map<string, Thing>();
  #history: { readonly version: number; readonly event: WatchEvent<Thing> }[] = [];
  #oldest = 0;
  #version = 0;
  readonly #watchers = new Set<Watcher>();
  /** The number of next calls that fail. */
  failingCalls = 0;
  listMs = 0;
  lists = 0;
  watches = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get things(): readonly Thing[] {
    return [...this.#things.values()];
  }

  get openWatches(): number {
    return this.#watchers.size;
  }

  put(
    name: string,
    options: { readonly valid?: boolean; readonly colors?: readonly string[] } = {},
  ): Thing {
    const old = this.#things.get(name);
    const resourceVersion = String(this.#version + 1);
    const thing = aThing({
      ...options,
      name,
      uid: old?.metadata.uid ?? `${name}-${resourceVersion}`,
      resourceVersion,
    });
    this.#things.set(name, thing);
    this.#record({ type: old === undefined ? 'ADDED' : 'MODIFIED', object: thing });
    return thing;
  }

  delete(name: string): void {
    const old = this.#things.get(name);
    if (old === undefined) return;
    this.#things.delete(name);
    const resourceVersion = String(this.#version + 1);
    this.#record({
      type: 'DELETED',
      object: { ...old, metadata: { ...old.metadata, resourceVersion } },
    });
  }

  /** Deletes and creates again, but reports only the second. */
  swap(name: string): void {
    this.#things.delete(name);
    this.put(name);
  }

  bookmark(): void {
    for (const watcher of this.#watchers)
      this.#send(watcher, { type: 'BOOKMARK', resourceVersion: String(this.#version) });
  }

  /** Forgets the history: a watch from before gets 410. */
  compact(): void {
    this.#history = [];
    this.#oldest = this.#version;
  }

  endWatches(end: Error | 'order'): void {
    for (const watcher of this.#watchers) {
      watcher.end ??= end;
      watcher.wake();
    }
  }

  expireWatches(): void {
    this.endWatches(expired());
  }

  /** Open watches receive nothing any more, and no end either. */
  deafenWatches(): void {
    for (const watcher of this.#watchers) watcher.deaf = true;
  }

  /** A client with only the calls that a reflector makes. */
  get client(): KubeClient {
    const partial: Pick<KubeClient, 'listMapped' | 'watch'> = {
      listMapped: async <R>(_resource: unknown, map: (object: never) => R | undefined) => {
        const { items, resourceVersion } = (await this.#list()) as unknown as ListResult<never>;
        return {
          items: items.map((item) => map(item)).filter((item) => item !== undefined),
          resourceVersion,
        };
      },
      watch: <T>(_resource: unknown, options: WatchOptions) =>
        this.#watch(options) as unknown as AsyncIterable<WatchEvent<T>>,
    };
    return partial as KubeClient;
  }

  async #list(): Promise<ListResult<Thing>> {
    this.lists++;
    await this.#answering();
    const list = { items: this.things, resourceVersion: String(this.#version) };
    if (this.listMs > 0) await sleep(this.#clock, this.listMs);
    return list;
  }

  async *#watch({
    resourceVersion,
    timeoutSeconds,
    signal,
  }: WatchOptions): AsyncGenerator<WatchEvent<Thing>> {
    this.watches++;
    await this.#answering();
    const from = Number(resourceVersion);
    if (from < this.#oldest) throw expired();
    const watcher: Watcher = {
      events: this.#history.filter(({ version }) => version > from).map(({ event }) => event),
      deaf: false,
      end: undefined,
      wake: () => undefined,
    };
    this.#watchers.add(watcher);
    const onAbort = () => {
      watcher.end ??= new TransportError('aborted');
      watcher.wake();
    };
    signal.addEventListener('abort', onAbort);
    const timer = this.#clock.after(timeoutSeconds * 1000, () => {
      // A stream that has died doesn't end in good order either.
      if (!watcher.deaf) watcher.end ??= 'order';
      watcher.wake();
    });
    try {
      for (;;) {
        const event = watcher.events.shift();
        if (event !== undefined) {
          yield event;
        } else if (watcher.end === undefined) {
          await new Promise<void>((resolve) => {
            watcher.wake = resolve;
          });
        } else if (watcher.end === 'order') {
          return;
        } else {
          throw watcher.end;
        }
      }
    } finally {
      timer.cancel();
      signal.removeEventListener('abort', onAbort);
      this.#watchers.delete(watcher);
    }
  }

  async #answering(): Promise<void> {
    await Promise.resolve();
    if (this.failingCalls === 0) return;
    this.failingCalls--;
    throw this.failingCalls % 2 === 0 ? new TransportError('refused') : new ApiError(500, {});
  }

  #record(event: WatchEvent<Thing> & { readonly object: Thing }): void {
    this.#version++;
    this.#history.push({ version: this.#version, event });
    for (const watcher of this.#watchers) this.#send(watcher, event);
  }

  #send(watcher: Watcher, event: WatchEvent<Thing>): void {
    if (watcher.deaf) return;
    watcher.events.push(event);
    watcher.wake();
  }
}
