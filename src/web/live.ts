import { batch, signal } from '@preact/signals';
import { api } from './api.ts';
import type { AgentEvent } from '../agent/event-kinds.ts';
import type { History } from './history.ts';
import { joinedTexts, writtenIn, type LiveText } from './live-texts.ts';
import { Refresher } from './reading.ts';
import type { LiveActivity } from './wire.ts';

/** Delay before the next read after a failed one. */
const retryDelayMs = 10_000;

/** Texts of one conversation that still grow and that no event contains yet. */
export class Live {
  readonly texts = signal<readonly LiveText[]>([]);
  /** Milliseconds since the beginning of the run; null if unknown. */
  readonly runMs = signal<number | null>(null);
  readonly #history: History;
  readonly #path: string;
  readonly #refresher = new Refresher(() => this.#read());
  #cursor: string | undefined;
  /** Events that were known at the last read of the texts. */
  #events: readonly AgentEvent[] = [];
  #notBeforeMs = 0;

  constructor(conversationId: string, history: History) {
    this.#path = `/api/v1/app-conversations/${conversationId}/live`;
    this.#history = history;
  }

  /** Reads new texts. Never rejects. */
  refresh(): Promise<void> {
    return performance.now() < this.#notBeforeMs ? Promise.resolve() : this.#refresher.run();
  }

  /** Removes all texts. Called when no run is in progress. */
  clear(): void {
    batch(() => {
      if (this.texts.peek().length > 0) this.texts.value = [];
      this.runMs.value = null;
    });
  }

  outputOf(call: string): LiveText | undefined {
    return this.texts.value.find((each) => each.kind === 'output' && each.call === call);
  }

  /** The last thought and message; empty if a later event may already contain them. */
  get written(): readonly LiveText[] {
    // Reads both signals in every case, so that a component subscribes to both.
    const written = writtenIn(this.texts.value);
    return this.#history.events.value === this.#events ? written : [];
  }

  async #read(): Promise<void> {
    try {
      const answer = await api.get<LiveActivity>(this.#path, { after: this.#cursor });
      const { cursor, last_event_id: last, run_ms: runMs } = answer;
      // An agent that returns no cursor has only events, and no live texts.
      if (cursor === null) this.#notBeforeMs = Infinity;
      this.#cursor = cursor ?? undefined;
      if (last !== null && !this.#history.has(last)) await this.#history.refresh();
      this.#events = this.#history.events.peek();
      batch(() => {
        this.texts.value = joinedTexts(this.texts.peek(), answer);
        this.runMs.value = runMs;
      });
    } catch {
      // This failure is not shown, because the reads of events report it.
      this.#notBeforeMs = performance.now() + retryDelayMs;
    }
  }
}
