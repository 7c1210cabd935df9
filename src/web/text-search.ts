import { signal } from '@preact/signals';
import { api, messageOf } from './api.ts';
import type { Found, TextSearchPage } from './wire.ts';

/** Results of one step: further ones are read on demand. */
const itemsPerStep = 50;

/** The search for one text in the conversations of the owner, newest first, page by page. */
export class TextSearch {
  readonly items = signal<readonly Found[]>([]);
  readonly searched = signal<TextSearchPage['searched'] | undefined>(undefined);
  /** Conversations of which not all events were searched. */
  readonly incomplete = signal(0);
  readonly state = signal<'searching' | 'stopped' | 'over'>('stopped');
  readonly problem = signal<string | undefined>(undefined);
  readonly #text: string;
  #next: string | undefined;
  #reading = new AbortController();

  constructor(text: string) {
    this.#text = text;
  }

  /** Searches until there are enough further results, or nothing is left. Never rejects. */
  async continue(): Promise<void> {
    this.#reading.abort();
    const { signal: left } = (this.#reading = new AbortController());
    const enough = this.items.peek().length + itemsPerStep;
    this.state.value = 'searching';
    this.problem.value = undefined;
    try {
      while (this.items.peek().length < enough) {
        const query = { q: this.#text, limit: itemsPerStep, page_id: this.#next };
        const page = await api.get<TextSearchPage>('/api/v1/search', query, left);
        left.throwIfAborted();
        this.items.value = [...this.items.peek(), ...page.items];
        this.searched.value = page.searched;
        this.incomplete.value += page.searched.incomplete;
        this.#next = page.next_page_id ?? undefined;
        if (this.#next === undefined) {
          this.state.value = 'over';
          return;
        }
      }
    } catch (error) {
      if (left.aborted) return;
      this.problem.value = messageOf(error);
    }
    this.state.value = 'stopped';
  }

  stop(): void {
    this.#reading.abort();
    if (this.state.peek() === 'searching') this.state.value = 'stopped';
  }
}
