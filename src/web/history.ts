import { computed, signal } from '@preact/signals';
import { api, ApiError, messageOf } from './api.ts';
import { entriesOf, idOf, isEvent, type AgentEvent } from './entries.ts';
import { Refresher } from './refresher.ts';

interface EventPage {
  readonly items: readonly AgentEvent[];
  readonly next_page_id: string | null;
}

/** The service passes on what an agent answers, as it is. */
interface Answer {
  readonly items?: unknown;
  readonly next_page_id?: unknown;
}

const pageSize = 50;
/** Maximum pages of one refresh: after these without a known event, they replace the events. */
const maxPagesBehind = 5;

/** The events of one conversation: the newest page first, older ones on demand. */
export class History {
  /** Oldest first. */
  readonly events = signal<readonly AgentEvent[]>([]);
  readonly entries = computed(() => entriesOf(this.events.value));
  /** Where the older events begin; null: there are none; undefined: nothing has arrived yet. */
  readonly older = signal<string | null | undefined>(undefined);
  readonly isLoadingOlder = signal(false);
  readonly problem = signal<string | undefined>(undefined);
  /** Whether the agent can not be asked at the moment, because its sandbox does not run. */
  readonly isAway = signal(false);
  readonly #path: string;
  readonly #ids = new Set<string>();
  readonly #refresher = new Refresher(() => this.#read());

  constructor(conversationId: string) {
    this.#path = `/api/v1/conversation/${conversationId}/events/search`;
  }

  /** Reads what is new. A call during another one makes it read once more. */
  refresh(): Promise<void> {
    return this.#refresher.run();
  }

  async loadOlder(): Promise<void> {
    const from = this.older.peek();
    if (from === null || from === undefined || this.isLoadingOlder.peek()) return;
    this.isLoadingOlder.value = true;
    try {
      const { items, next_page_id: next } = await this.#page(from);
      // A refresh may have replaced everything meanwhile.
      if (this.older.peek() !== from) return;
      this.events.value = [...this.#unknown(items).reverse(), ...this.events.peek()];
      this.older.value = next;
      this.problem.value = undefined;
    } catch (error) {
      this.#fail(error);
    } finally {
      this.isLoadingOlder.value = false;
    }
  }

  async #read(): Promise<void> {
    try {
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
      const added = this.#unknown(news);
      if (added.length > 0) this.events.value = [...this.events.peek(), ...added.reverse()];
      this.problem.value = undefined;
      this.isAway.value = false;
    } catch (error) {
      this.#fail(error);
    }
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

  async #page(from: string | undefined): Promise<EventPage> {
    const query = { sort_order: 'TIMESTAMP_DESC', limit: pageSize, page_id: from };
    const answer = await api.get<Answer | null | undefined>(this.#path, query);
    const { items, next_page_id: next } = answer ?? {};
    if (!Array.isArray(items))
      throw new ApiError({ detail: 'The answer of the agent is no list of events.' });
    return { items: items.filter(isEvent), next_page_id: typeof next === 'string' ? next : null };
  }

  #fail(error: unknown): void {
    const code = error instanceof ApiError ? error.problem.code : undefined;
    this.isAway.value = code === 'wrong-state';
    this.problem.value = code === 'wrong-state' ? undefined : messageOf(error);
  }
}
