import type { Clock, Timer } from '@conversation-operator/base/clock';
import { apiVersionOf, type ApiResource } from '../registry/api-resource.ts';
import type { Serializer } from './serializer.ts';
import { type Change, WatchStream } from '../storage/changes.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { withMeta } from './api-object.ts';
import { eventIn, type Selection } from './selection.ts';
import { expired, type StatusError } from './status-error.ts';

const bookmarkIntervalMs = 60_000;

export interface WatchRequest {
  readonly resource: ApiResource;
  readonly selection: Selection;
  readonly serializer: Serializer;
  /** Version after which the watch starts. Undefined: the watch starts with the current state. */
  readonly version: number | undefined;
  readonly bookmarks: boolean;
  /** Whether a bookmark is sent at the end of the initial events. */
  readonly markInitial: boolean;
  readonly timeoutMs: number;
}

interface Options {
  readonly store: ObjectStore;
  readonly clock: Clock;
  /** Maximum unread lines of a watcher. The hub closes a watcher that has more. */
  readonly maxLines: number;
}

interface Watcher {
  readonly request: WatchRequest;
  readonly stream: WatchStream;
  readonly timer: Timer;
  /** Version up to which the watcher has received all changes. */
  version: number;
  first: boolean;
}

const line = (type: string, object: string): string => `{"type":"${type}","object":${object}}\n`;

/** Sends changes to watchers. Watchers with the same encoding share the text of a change. */
export class WatchHub {
  readonly #options: Options;
  readonly #watchers = new Map<string, Set<Watcher>>();
  #bookmarkTimer: Timer | undefined;

  constructor(options: Options) {
    this.#options = options;
    options.store.onChange((change) => this.#dispatch(change));
  }

  get size(): number {
    return [...this.#watchers.values()].reduce((sum, { size }) => sum + size, 0);
  }

  watch(request: WatchRequest): WatchStream {
    const { resource, version } = request;
    const stream: WatchStream = new WatchStream({
      maxLines: this.#options.maxLines,
      onClose: () => this.#remove(resource.key, watcher),
    });
    const timer = this.#options.clock.after(request.timeoutMs, () => {
      if (request.bookmarks) this.#bookmark(watcher);
      stream.end();
    });
    const watcher: Watcher = {
      request,
      stream,
      timer,
      version: version ?? this.#options.store.revision,
      first: true,
    };
    this.#watchersOf(resource.key).add(watcher);
    if (version === undefined) this.#sendState(watcher);
    else this.#sendPast(watcher, version);
    this.#scheduleBookmarks();
    return stream;
  }

  #watchersOf(key: string): Set<Watcher> {
    const known = this.#watchers.get(key) ?? new Set<Watcher>();
    this.#watchers.set(key, known);
    return known;
  }

  #sendState(watcher: Watcher): void {
    const { resource, selection, serializer, markInitial } = watcher.request;
    const lines: string[] = [];
    for (const { object, json } of this.#options.store.list(resource.key, selection.namespace)) {
      if (!selection.matches(object)) continue;
      lines.push(line('ADDED', serializer.event(object, json, watcher)));
      watcher.first = false;
    }
    // The current state is pushed as one text, so that it counts as one line of `maxLines`.
    if (lines.length > 0) watcher.stream.push(lines.join(''));
    if (markInitial) this.#bookmark(watcher, { 'k8s.io/initial-events-end': 'true' });
  }

  #sendPast(watcher: Watcher, version: number): void {
    const changes = this.#options.store.since(watcher.request.resource.key, version);
    if (changes === undefined) {
      this.#fail(
        watcher,
        expired(`too old resource version: ${version} (${this.#options.store.compacted})`),
      );
      return;
    }
    for (const change of changes) this.#offer(watcher, change, new Map());
  }

  #fail(watcher: Watcher, error: StatusError): void {
    watcher.stream.push(line('ERROR', JSON.stringify(error.status)));
    watcher.stream.end();
  }

  #dispatch(change: Change): void {
    const watchers = this.#watchers.get(change.resource);
    if (watchers === undefined) return;
    const texts = new Map<string, string>();
    for (const watcher of watchers) this.#offer(watcher, change, texts);
  }

  /** `texts` caches the lines of this change, because many watchers get the same line. */
  #offer(watcher: Watcher, change: Change, texts: Map<string, string>): void {
    if (change.version <= watcher.version) return;
    watcher.version = change.version;
    const event = eventIn(watcher.request.selection, change);
    if (event === undefined) return;
    const { serializer } = watcher.request;
    const key = `${event.type} ${event.state} ${serializer.key} ${watcher.first}`;
    let text = texts.get(key);
    if (text === undefined) {
      const object =
        event.state === 'left' && change.before !== undefined
          ? // The object does not match any more: the watcher gets the last state that matched.
            withMeta(change.before.object, { resourceVersion: String(change.version) })
          : change.after.object;
      text = line(
        event.type,
        serializer.event(object, event.state === 'after' ? change.after.json : undefined, watcher),
      );
      texts.set(key, text);
    }
    watcher.first = false;
    watcher.stream.push(text);
  }

  #bookmark(watcher: Watcher, annotations?: Readonly<Record<string, string>>): void {
    const { resource } = watcher.request;
    const metadata = {
      resourceVersion: String(Math.max(watcher.version, this.#options.store.committedRevision)),
      creationTimestamp: null,
      ...(annotations === undefined ? {} : { annotations }),
    };
    watcher.stream.push(
      line(
        'BOOKMARK',
        JSON.stringify({ kind: resource.kind, apiVersion: apiVersionOf(resource), metadata }),
      ),
    );
  }

  /** Runs the bookmark timer while any watcher requests bookmarks. */
  #scheduleBookmarks(): void {
    if (this.#bookmarkTimer !== undefined) return;
    const wanting = [...this.#watchers.values()]
      .flatMap((watchers) => [...watchers])
      .filter(({ request }) => request.bookmarks);
    if (wanting.length === 0) return;
    this.#bookmarkTimer = this.#options.clock.after(bookmarkIntervalMs, () => {
      this.#bookmarkTimer = undefined;
      for (const watchers of this.#watchers.values()) {
        for (const watcher of watchers) if (watcher.request.bookmarks) this.#bookmark(watcher);
      }
      this.#scheduleBookmarks();
    });
  }

  #remove(key: string, watcher: Watcher): void {
    watcher.timer.cancel();
    this.#watchers.get(key)?.delete(watcher);
    if (this.size > 0) return;
    this.#bookmarkTimer?.cancel();
    this.#bookmarkTimer = undefined;
  }

  /** Ends the watches of one kind, or of all kinds. */
  end(key?: string): void {
    for (const [resource, watchers] of this.#watchers) {
      if (key === undefined || resource === key)
        for (const { stream } of [...watchers]) stream.end();
    }
  }
}
