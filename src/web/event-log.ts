import { signal } from '@preact/signals';
import type { AgentEvent } from '../agent/event-kinds.ts';
import { entriesOf, idOf } from '../sentences/entries.ts';

/** A page of events, newest first unless requested otherwise. */
export interface EventPage {
  readonly items: readonly AgentEvent[];
  readonly next_page_id: string | null;
}

/** `from` is the `next_page_id` of the last page, or the id of the first event to return. */
export type ReadPage = (
  from: string | undefined,
  order?: 'oldest first' | 'newest first',
) => Promise<EventPage>;

/** Consecutive events from an earlier part of the history, apart from the latest events. */
export interface Excerpt {
  /** Oldest first. */
  readonly events: readonly AgentEvent[];
  /** Page id of the older events; null if there are none. */
  readonly older: string | null;
  /** Page id of the newer events. */
  readonly newer: string;
}

/** The id of the entry that shows an event, or else of the entry before it. Pure. */
export function entryIdOf(events: readonly AgentEvent[], id: string): string | undefined {
  const place = events.findIndex((event) => idOf(event) === id);
  const before = entriesOf(events.slice(0, place)).map((entry) => JSON.stringify(entry));
  const after = entriesOf(events.slice(0, place + 1));
  const changed = after.find((entry, index) => JSON.stringify(entry) !== before[index]);
  return (changed ?? after.at(-1))?.id;
}

/** Maximum pages that a refresh reads. If all their events are new, they replace the shown ones. */
const maxPagesBehind = 5;

/**
 * The events of one conversation that the page has read, without duplicates. Pages come from the
 * agent while its sandbox runs, and from the archive while it is paused.
 */
export class EventLog {
  /** Oldest first. */
  readonly events = signal<readonly AgentEvent[]>([]);
  /** Page id of the older events; null if there are none, undefined before the first read. */
  readonly older = signal<string | null | undefined>(undefined);
  /** Events from an earlier part of the history. There is at most one excerpt. */
  readonly excerpt = signal<Excerpt | undefined>(undefined);
  readonly #page: ReadPage;
  readonly #ids = new Set<string>();

  constructor(page: ReadPage) {
    this.#page = page;
  }

  /** Reads new events. A failure changes nothing. */
  async refresh(): Promise<void> {
    const news: AgentEvent[] = [];
    let from: string | undefined;
    let isReplaced = false;
    for (let pages = 1; ; pages++) {
      const { items, next_page_id: next } = await this.#page(from);
      news.push(...items);
      const isJoined = items.some((event) => this.#ids.has(idOf(event)));
      if (isJoined) break;
      if (next === null || pages === maxPagesBehind || this.#ids.size === 0) {
        this.#ids.clear();
        this.events.value = [];
        this.older.value = next;
        isReplaced = true;
        break;
      }
      from = next;
    }
    // Only the events before the first known event are new. A page from an archive that lacks the
    // newest events begins with older events.
    const known = news.findIndex((event) => this.#ids.has(idOf(event)));
    const added = this.#unknown(known < 0 ? news : news.slice(0, known));
    if (added.length > 0) this.events.value = [...this.events.peek(), ...added.reverse()];
    const excerpt = this.excerpt.peek();
    if (isReplaced && excerpt !== undefined)
      this.#place(excerpt.events, excerpt.older, excerpt.newer);
  }

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  /** The consecutive shown events around the event with this id; undefined if it is not shown. */
  runOf(id: string): readonly AgentEvent[] | undefined {
    const runs = [this.excerpt.peek()?.events ?? [], this.events.peek()];
    return runs.find((run) => run.some((event) => idOf(event) === id));
  }

  async readOlder(): Promise<void> {
    const excerpt = this.excerpt.peek();
    const from = excerpt === undefined ? this.older.peek() : excerpt.older;
    if (from === null || from === undefined) return;
    const { items, next_page_id: next } = await this.#page(from);
    if (excerpt !== undefined) {
      if (this.excerpt.peek() === excerpt)
        this.#place([...items.toReversed(), ...excerpt.events], next, excerpt.newer);
      return;
    }
    // A refresh may have replaced all events during the read.
    if (this.older.peek() !== from) return;
    this.events.value = [...this.#unknown(items).reverse(), ...this.events.peek()];
    this.older.value = next;
  }

  async readFirst(): Promise<void> {
    const { items, next_page_id: next } = await this.#page(undefined, 'oldest first');
    this.#place(items, null, next);
  }

  /** Reads an existing event, with the events before and after it. */
  async readAround(id: string): Promise<void> {
    const [before, after] = await Promise.all([
      this.#page(id, 'newest first'),
      this.#page(id, 'oldest first'),
    ]);
    this.#place(
      [...before.items.toReversed(), ...after.items],
      before.next_page_id,
      after.next_page_id,
    );
    // The event may be newer than all known events: then a refresh reads it.
    if (this.runOf(id) === undefined) await this.refresh();
  }

  /** Reads the events after the excerpt. If they reach the latest events, both lists are joined. */
  async readNewer(): Promise<void> {
    const excerpt = this.excerpt.peek();
    if (excerpt === undefined) return;
    const { items, next_page_id: next } = await this.#page(excerpt.newer, 'oldest first');
    if (this.excerpt.peek() !== excerpt) return;
    this.#place([...excerpt.events, ...items], excerpt.older, next);
  }

  /** Shows events as the excerpt, or joins them to the latest events if they overlap. */
  #place(read: readonly AgentEvent[], older: string | null, newer: string | null): void {
    const seen = new Set<string>();
    const events = read.filter((event) => !seen.has(idOf(event)) && seen.add(idOf(event)));
    const known = events.findIndex((event) => this.#ids.has(idOf(event)));
    // Even after the last page, newer events may follow: an archive lags behind its agent.
    const last = events.at(-1);
    if (known < 0) {
      this.excerpt.value =
        last === undefined ? undefined : { events, older, newer: newer ?? idOf(last) };
      return;
    }
    this.excerpt.value = undefined;
    if (known === 0) return;
    this.events.value = [...this.#unknown(events.slice(0, known)), ...this.events.peek()];
    this.older.value = older;
  }

  #unknown(events: readonly AgentEvent[]): AgentEvent[] {
    return events.filter((event) => {
      const id = idOf(event);
      if (this.#ids.has(id)) return false;
      this.#ids.add(id);
      return true;
    });
  }
}
