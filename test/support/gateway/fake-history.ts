import {
  type ArchiveAddress,
  type ArchiveState,
  ArchiveError,
} from '../../../src/archive/layout.ts';
import type { WorkspaceSnapshot } from '../../../src/archive/workspace-snapshot.ts';
import type {
  HistoryEvent,
  HistoryFilter,
  HistoryQuery,
  HistoryReader,
} from '../../../src/archive/history.ts';

export interface StoredEvent {
  readonly id: string;
  readonly kind: string;
  readonly timestamp: string;
}

/** Events, one each second. */
export const storedEvents = (count: number, first = 0): readonly StoredEvent[] =>
  Array.from({ length: count }, (_, index) => ({
    id: `e${first + index}`,
    kind: (first + index) % 2 === 0 ? 'MessageEvent' : 'ActionEvent',
    timestamp: new Date(Date.UTC(2026, 0, 1) + (first + index) * 1000).toISOString().slice(0, 19),
  }));

/** A head of an archive with this number of events. */
export const headOf = (count: number): string =>
  `${String(count).padStart(10, '0')}-0123456789abcdef01234567`;

const matches = ({ kind, timestamp }: StoredEvent, filter: HistoryFilter): boolean =>
  (filter.kind === undefined || filter.kind === kind) &&
  (filter.from === undefined || timestamp >= filter.from) &&
  (filter.before === undefined || timestamp < filter.before);

type Method = 'search' | 'count' | 'byIds' | 'all';

/** Archives in memory, with the semantics of `HistoryReader`. */
export class FakeHistory implements HistoryReader {
  /** The events of each head. A head without events is gone. */
  readonly heads = new Map<string, readonly StoredEvent[]>();
  /** The newest head of the store, by UID. */
  readonly stored = new Map<string, string>();
  readonly calls: { readonly method: Method; readonly state: ArchiveState }[] = [];
  /** Runs before each read; what it throws is the result of the read. */
  before: (method: Method, signal: AbortSignal | undefined) => Promise<void> | void = () =>
    undefined;

  /** The status of a conversation with these archived events. */
  archived(events: readonly StoredEvent[]) {
    const head = headOf(events.length);
    this.heads.set(head, events);
    return { head, events: events.length, bytes: 100 };
  }

  async search(state: ArchiveState, query: HistoryQuery, signal?: AbortSignal) {
    const all = await this.#read('search', state, signal);
    const ordered = query.descending ? all.toReversed() : all;
    const [id = '', position] = (query.pageId ?? '').split('@');
    const start = ordered.findIndex(
      (event) => event.id === id && (position === undefined || `${event.position}` === position),
    );
    const found = ordered.slice(Math.max(start, 0)).filter(({ event }) => matches(event, query));
    const next = found[query.limit];
    return {
      events: found.slice(0, query.limit).map(eventOf),
      nextPageId: next === undefined ? null : `${next.id}@${next.position}`,
    };
  }

  async count(state: ArchiveState, filter: HistoryFilter, signal?: AbortSignal) {
    const all = await this.#read('count', state, signal);
    return all.filter(({ event }) => matches(event, filter)).length;
  }

  async *byIds(state: ArchiveState, ids: readonly string[], signal?: AbortSignal) {
    const all = await this.#read('byIds', state, signal);
    for (const event of all.toReversed()) if (ids.includes(event.id)) yield eventOf(event);
  }

  async *all(state: ArchiveState, from = 0, signal?: AbortSignal) {
    const all = await this.#read('all', state, signal);
    for (let at = from; at < all.length; at += 100) {
      if (at > from) await this.before('all', signal);
      yield all.slice(at, at + 100).map(eventOf);
    }
  }

  /** Tests of searches read real archives. */
  async *find() {}

  /** Finds the head that `stored` has for the UID. */
  newest({ namespace, uid }: ArchiveAddress): Promise<ArchiveState | undefined> {
    const head = this.stored.get(uid);
    return Promise.resolve(head === undefined ? undefined : { namespace, uid, head });
  }

  files(): Promise<WorkspaceSnapshot | undefined> {
    return Promise.resolve(undefined);
  }

  async #read(method: Method, state: ArchiveState, signal: AbortSignal | undefined) {
    this.calls.push({ method, state });
    await this.before(method, signal);
    signal?.throwIfAborted();
    const events = this.heads.get(state.head);
    if (events === undefined) throw new ArchiveError('gone', `${state.head} does not exist`);
    return events.map((event, position) => ({ id: event.id, position, event }));
  }
}

const eventOf = ({
  id,
  position,
  event,
}: {
  readonly id: string;
  readonly position: number;
  readonly event: StoredEvent;
}): HistoryEvent => ({ id, position, json: Buffer.from(JSON.stringify(event)) });

/** Never resolves; rejects when the signal is aborted. */
export const hangs = (signal: AbortSignal | undefined): Promise<never> =>
  new Promise((_resolve, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
