import { signal } from '@preact/signals';
import { idOf, type AgentEvent } from './entries.ts';

/** A page of events, newest first. */
export interface EventPage {
  readonly items: readonly AgentEvent[];
  readonly next_page_id: string | null;
}

/** Maximum pages of one refresh: after these without a known event, they replace the events. */
const maxPagesBehind = 5;

/**
 * The events that the page has of one conversation, joined by their ids: the pages may come from
 * its agent and from the archive by turns, while its sandbox is paused and resumed.
 */
export class EventLog {
  /** Oldest first. */
  readonly events = signal<readonly AgentEvent[]>([]);
  /** Where the older events begin; null: there are none; undefined: nothing has arrived yet. */
  readonly older = signal<string | null | undefined>(undefined);
  readonly #page: (from: string | undefined) => Promise<EventPage>;
  readonly #ids = new Set<string>();

  constructor(page: (from: string | undefined) => Promise<EventPage>) {
    this.#page = page;
  }

  /** Reads what is new. A failure changes nothing. */
  async refresh(): Promise<void> {
    const news: AgentEvent[] = [];
    let from: string | undefined;
    for (let pages = 1; ; pages++) {
      const { items, next_page_id: next } = await this.#page(from);
      news.push(...items);
      const isJoined = items.some((event) => this.#ids.has(idOf(event)));
      if (isJoined) break;
      if (next === null || pages === maxPagesBehind || this.#ids.size === 0) {
        this.#ids.clear();
        this.events.value = [];
        this.older.value = next;
        break;
      }
      from = next;
    }
    // Behind an event that is shown are older ones: where the archive has not got the newest ones
    // yet, its page begins earlier.
    const known = news.findIndex((event) => this.#ids.has(idOf(event)));
    const added = this.#unknown(known < 0 ? news : news.slice(0, known));
    if (added.length > 0) this.events.value = [...this.events.peek(), ...added.reverse()];
  }

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  async readOlder(): Promise<void> {
    const from = this.older.peek();
    if (from === null || from === undefined) return;
    const { items, next_page_id: next } = await this.#page(from);
    // A refresh may have replaced everything meanwhile.
    if (this.older.peek() !== from) return;
    this.events.value = [...this.#unknown(items).reverse(), ...this.events.peek()];
    this.older.value = next;
  }

  /** The events of these that are not shown yet, in their order. */
  #unknown(events: readonly AgentEvent[]): AgentEvent[] {
    return events.filter((event) => {
      const id = idOf(event);
      if (this.#ids.has(id)) return false;
      this.#ids.add(id);
      return true;
    });
  }
}
