import { computed, signal } from '@preact/signals';
import { api, ApiError, messageOf } from './api.ts';
import { entriesOf, isEvent } from './entries.ts';
import { EventLog, type EventPage } from './event-log.ts';
import { Refresher } from './refresher.ts';

/** The service passes on what an agent answers, as it is. */
interface Answer {
  readonly items?: unknown;
  readonly next_page_id?: unknown;
}

const pageSize = 50;

/** The events of one conversation: the newest page first, older ones on demand. */
export class History {
  readonly #log = new EventLog((from) => this.#page(from));
  readonly events = this.#log.events;
  readonly older = this.#log.older;
  readonly entries = computed(() => entriesOf(this.events.value));
  readonly isLoadingOlder = signal(false);
  readonly problem = signal<string | undefined>(undefined);
  /** Why there are no further events to read; undefined where there may be. */
  readonly absence = signal<string | undefined>(undefined);
  /** Address of the record and all events as a ZIP archive. */
  readonly downloadPath: string;
  readonly #path: string;
  readonly #refresher = new Refresher(() => this.#attempt(() => this.#log.refresh()));

  constructor(conversationId: string) {
    this.#path = `/api/v1/conversation/${conversationId}/events/search`;
    this.downloadPath = `/api/v1/app-conversations/${conversationId}/download`;
  }

  /** Reads what is new. A call during another one makes it read once more. */
  refresh(): Promise<void> {
    return this.#refresher.run();
  }

  /** Whether the event of this id has been read. */
  has(id: string): boolean {
    return this.#log.has(id);
  }

  async loadOlder(): Promise<void> {
    if (this.isLoadingOlder.peek()) return;
    this.isLoadingOlder.value = true;
    await this.#attempt(() => this.#log.readOlder());
    this.isLoadingOlder.value = false;
  }

  /** Never rejects. The events that are shown already stay after a failure. */
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

  async #page(from: string | undefined): Promise<EventPage> {
    const query = { sort_order: 'TIMESTAMP_DESC', limit: pageSize, page_id: from };
    const answer = await api.get<Answer | null | undefined>(this.#path, query);
    const { items, next_page_id: next } = answer ?? {};
    if (!Array.isArray(items))
      throw new ApiError({ detail: 'The answer of the agent is no list of events.' });
    return { items: items.filter(isEvent), next_page_id: typeof next === 'string' ? next : null };
  }
}

const absences: Readonly<Record<string, string>> = {
  'archive-disabled':
    'This service keeps no history: the events are with the agent, which answers while its sandbox runs.',
  'archive-empty': 'No events of this conversation are stored.',
  'archive-expired': 'The history was deleted, because its retention was over.',
};

/** The sentence for a conversation without events to read; undefined for every other failure. */
function absenceOf(error: unknown): string | undefined {
  if (!(error instanceof ApiError)) return undefined;
  const { code = '' } = error.problem;
  return code === 'wrong-state' ? error.message : absences[code];
}
