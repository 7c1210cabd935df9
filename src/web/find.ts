import { signal } from '@preact/signals';
import { messageOf } from './api.ts';
import { hitIn, patternOf, type Hit } from './hit.ts';
import type { History } from './history.ts';

/** Maximum hits of one search. */
export const maxHits = 1_000;
const pageSize = 100;

/**
 * A search for a text in all events of a conversation, oldest first, which keeps its hits and one
 * page of events at a time.
 */
export class EventSearch {
  readonly hits = signal<readonly Hit[]>([]);
  readonly searched = signal(0);
  /** Number of all events; undefined where it is unknown. */
  readonly total = signal<number | undefined>(undefined);
  /** stopped: by a person, or by a problem. */
  readonly state = signal<'running' | 'stopped' | 'done'>('running');
  readonly problem = signal<string | undefined>(undefined);
  readonly text: string;
  readonly #history: History;
  readonly #pattern: RegExp;
  #aborter = new AbortController();
  /** Where the next page begins; undefined: with the first event; null: there is none. */
  #next: string | null | undefined;

  constructor(history: History, text: string) {
    this.#history = history;
    this.text = text;
    this.#pattern = patternOf(text);
    void this.#count();
    void this.resume();
  }

  /** Ends the search. Its hits stay. */
  stop(): void {
    this.#aborter.abort();
    if (this.state.peek() === 'running') this.state.value = 'stopped';
  }

  /** Continues where the search was stopped. */
  async resume(): Promise<void> {
    const aborter = new AbortController();
    this.#aborter = aborter;
    this.state.value = 'running';
    this.problem.value = undefined;
    try {
      while (this.#next !== null && this.hits.peek().length < maxHits) {
        const { signal: stopped } = aborter;
        const options = { order: 'oldest first', limit: pageSize, signal: stopped } as const;
        const { items, next_page_id: next } = await this.#history.page(this.#next, options);
        if (stopped.aborted) return;
        const found = items.flatMap((event) => hitIn(event, this.#pattern) ?? []);
        if (found.length > 0) this.hits.value = [...this.hits.peek(), ...found].slice(0, maxHits);
        this.searched.value += items.length;
        this.#next = next;
      }
      this.state.value = 'done';
    } catch (error) {
      if (aborter.signal.aborted) return;
      this.state.value = 'stopped';
      this.problem.value = messageOf(error);
    }
  }

  async #count(): Promise<void> {
    this.total.value = await this.#history.count().catch(() => undefined);
  }
}
