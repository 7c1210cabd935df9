import { planOf, entriesOf, type Entry } from '../sentences/entries.ts';
import { computed, signal } from '@preact/signals';
import { api, ApiError, messageOf } from './api.ts';
import { Refresher } from './reading.ts';
import { isEvent, type AgentEvent } from '../agent/event-kinds.ts';
import type { ConversationPaths } from './row.ts';
import { entryIdOf, EventLog, type EventPage } from './event-log.ts';

/** The response of an agent, which the gateway forwards unchanged. */
interface Answer {
  readonly items?: unknown;
  readonly next_page_id?: unknown;
}

const pageSize = 50;

export interface Target {
  readonly entry: string;
  readonly takesFocus: boolean;
}

export interface Lookup {
  readonly text: string;
  readonly retry?: () => void;
}

/** Marks running calls as `apart`, because their result may be in events that are not shown. */
const withoutResults = (entries: readonly Entry[]): readonly Entry[] =>
  entries.map((entry) =>
    entry.kind === 'tool' && entry.state === 'running' ? { ...entry, state: 'apart' } : entry,
  );

export class History {
  readonly #log = new EventLog((from, order) => this.page(from, { order }));
  readonly events = this.#log.events;
  readonly plan = computed(() => planOf(this.events.value));
  readonly entries = computed(() => entriesOf(this.events.value));
  readonly excerpt = this.#log.excerpt;
  readonly excerptEntries = computed(() =>
    withoutResults(entriesOf(this.excerpt.value?.events ?? [])),
  );
  /** Page id of the events before all shown events; null if there are none. */
  readonly older = computed(() => {
    const excerpt = this.excerpt.value;
    return excerpt === undefined ? this.#log.older.value : excerpt.older;
  });
  /** Number of events between the excerpt and the latest events; undefined if unknown. */
  readonly hidden = signal<number | undefined>(undefined);
  /** The button whose request is in progress. */
  readonly loading = signal<'older' | 'first' | 'newer' | undefined>(undefined);
  readonly problem = signal<string | undefined>(undefined);
  /** Why no events can be read now, for example because none are stored; otherwise undefined. */
  readonly absence = signal<string | undefined>(undefined);
  /** The entry to scroll to; undefined after the list has scrolled. */
  readonly target = signal<Target | undefined>(undefined);
  readonly lookup = signal<Lookup | undefined>(undefined);
  /** URL of a ZIP archive with the record and all events; undefined for a shared conversation. */
  readonly downloadPath: string | undefined;
  /** Whether another person shares the conversation, for reading. */
  readonly isShared: boolean;
  readonly #path: string;
  /** Event id of the last call of `show`; `#showing` resolves when that call has ended. */
  #wanted: string | undefined;
  #showing = Promise.resolve();
  readonly #refresher = new Refresher(() => this.#attempt(() => this.#refresh()));

  constructor({ base, events, isShared }: ConversationPaths) {
    this.#path = events;
    this.isShared = isShared;
    this.downloadPath = isShared ? undefined : `${base}/download`;
  }

  /** Reads new events. A call during a read causes one more read. */
  refresh(): Promise<void> {
    return this.#refresher.run();
  }

  has(id: string): boolean {
    return this.#log.has(id);
  }

  loadOlder(): Promise<void> {
    return this.#load('older', () => this.#log.readOlder());
  }

  loadFirst(): Promise<void> {
    return this.#load('first', async () => {
      await this.#log.readFirst();
      this.#goTo((this.excerptEntries.peek()[0] ?? this.entries.peek()[0])?.id);
    });
  }

  /** Reads the events after the excerpt, and goes to the first new entry. */
  loadNewer(): Promise<void> {
    return this.#load('newer', async () => {
      const count = this.excerptEntries.peek().length;
      await this.#log.readNewer();
      const entries = this.excerpt.peek() === undefined ? this.entries : this.excerptEntries;
      this.#goTo(entries.peek()[count]?.id);
    });
  }

  /** Goes to an event's entry. The last call wins. Never rejects: `lookup` reports failures. */
  show(id: string, takesFocus = true): Promise<void> {
    const before = this.#showing;
    this.#wanted = id;
    this.#showing = (async () => {
      await before;
      if (this.#wanted === id) await this.#show(id, takesFocus);
    })();
    return this.#showing;
  }

  /** Number of all events, or of those that match the query. */
  count(query: Readonly<Record<string, string>> = {}, signal?: AbortSignal): Promise<number> {
    return api.get<number>(`${this.#path}/count`, query, signal);
  }

  async page(
    from: string | undefined,
    { order = 'newest first', limit = pageSize, signal }: PageOptions,
  ): Promise<EventPage> {
    const sort_order = order === 'newest first' ? 'TIMESTAMP_DESC' : 'TIMESTAMP';
    const query = { sort_order, limit, page_id: from };
    const answer = await api.get<Answer | null | undefined>(`${this.#path}/search`, query, signal);
    const { items, next_page_id: next } = answer ?? {};
    if (!Array.isArray(items))
      throw new ApiError({ detail: 'The answer of the agent is no list of events.' });
    return { items: items.filter(isEvent), next_page_id: typeof next === 'string' ? next : null };
  }

  #goTo(entry: string | undefined, takesFocus = true): void {
    this.target.value = entry === undefined ? undefined : { entry, takesFocus };
  }

  async #show(id: string, takesFocus: boolean): Promise<void> {
    try {
      if (this.#log.runOf(id) === undefined) {
        this.lookup.value = { text: 'Searching for the event…' };
        // Reads the latest events first: if the excerpt overlaps with them, both lists are joined.
        if (this.events.peek().length === 0) await this.refresh();
      }
      if (this.#log.runOf(id) === undefined) {
        const [event] = await api.get<readonly unknown[]>(this.#path, { id });
        if (!isEvent(event)) {
          this.lookup.value = { text: 'This event does not exist any more.' };
          return;
        }
        await this.#log.readAround(id);
      }
      this.lookup.value = undefined;
      this.#goTo(entryIdOf(this.#log.runOf(id) ?? [], id), takesFocus);
    } catch (error) {
      const retry = () => void this.show(id, takesFocus);
      this.lookup.value = { text: messageOf(error), retry };
    }
    await this.#measure();
  }

  async #refresh(): Promise<void> {
    const [first] = this.events.peek();
    await this.#log.refresh();
    if (this.events.peek()[0] !== first) await this.#measure();
  }

  /** Counts the events between the excerpt and the latest events, by their timestamps. */
  async #measure(): Promise<void> {
    const excerpt = this.excerpt.peek();
    this.hidden.value = undefined;
    if (excerpt === undefined) return;
    const from = timeOf(excerpt.events.at(-1));
    const before = timeOf(this.events.peek()[0]);
    const known = excerpt.events.filter((event) => timeOf(event) >= from).length;
    const count = await this.count({ timestamp__gte: from, timestamp__lt: before }).catch(() => 0);
    if (this.excerpt.peek() === excerpt && count > known) this.hidden.value = count - known;
  }

  async #load(name: 'older' | 'first' | 'newer', read: () => Promise<void>): Promise<void> {
    if (this.loading.peek() !== undefined) return;
    this.loading.value = name;
    await this.#attempt(read);
    this.loading.value = undefined;
    await this.#measure();
  }

  /** Never rejects. After a failure, the shown events remain. */
  async #attempt(read: () => Promise<void>): Promise<void> {
    try {
      await read();
      this.problem.value = undefined;
      this.absence.value = undefined;
    } catch (error) {
      const absence = absenceOf(error);
      this.absence.value = absence;
      this.problem.value = absence === undefined ? messageOf(error) : undefined;
    }
  }
}

interface PageOptions {
  readonly order?: 'oldest first' | 'newest first' | undefined;
  /** From 1 to 100. */
  readonly limit?: number;
  readonly signal?: AbortSignal;
}

const timeOf = (event: AgentEvent | undefined): string => {
  const time = event?.['timestamp'];
  return typeof time === 'string' ? time : '';
};

const absences: Readonly<Record<string, string>> = {
  'archive-disabled':
    'This service keeps no history: the events are with the agent, which answers while its sandbox runs.',
  'archive-empty': 'No events of this conversation are stored.',
  'archive-expired': 'The history was deleted, because its retention was over.',
};

/** The reason why a conversation has no readable events; undefined for other errors. */
function absenceOf(error: unknown): string | undefined {
  if (!(error instanceof ApiError)) return undefined;
  const { code = '' } = error.problem;
  return code === 'wrong-state' ? error.message : absences[code];
}
