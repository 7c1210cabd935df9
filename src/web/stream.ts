import { signal } from '@preact/signals';
import { api, ApiError, signIn } from './api.ts';
import type { Change } from './wire.ts';

const kinds = ['snapshot', 'conversation', 'start_task', 'sandbox', 'quota', 'removed'] as const;
/** Delays before the attempts after the service has refused the stream; the last one repeats. */
const delaysMs = [1_000, 2_000, 5_000, 10_000, 30_000];
const path = '/api/v1/stream';

/** The state of the stream. `attempts` counts the failed ones since it last was open. */
export interface StreamState {
  readonly isOpen: boolean;
  readonly attempts: number;
}

/**
 * The changes of everything that the page shows. The browser connects again by itself after a lost
 * connection, with the id of the last event; after an answer that is no stream, this class does.
 */
export class ChangeStream {
  readonly state = signal<StreamState>({ isOpen: false, attempts: 0 });
  /** Time of the last event; undefined before the first one. */
  lastNews: number | undefined;
  readonly #onChange: (parse: () => Change) => void;
  #source: EventSource | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Each change is parsed when the page applies it. */
  constructor(onChange: (parse: () => Change) => void) {
    this.#onChange = onChange;
    addEventListener('online', this.#reopen);
  }

  open = (): void => {
    this.#source?.close();
    const source = new EventSource(path);
    this.#source = source;
    source.onopen = () => {
      this.lastNews = Date.now();
      this.state.value = { isOpen: true, attempts: 0 };
    };
    source.onerror = () => this.#failed(source);
    for (const kind of kinds)
      source.addEventListener(kind, (event: MessageEvent<string>) => {
        this.lastNews = Date.now();
        // The service checks its events against the schemas of the records.
        this.#onChange(() => JSON.parse(`{"kind":"${kind}","data":${event.data}}`) as Change);
      });
    source.addEventListener('closed', (event: MessageEvent<string>) => {
      const { code } = JSON.parse(event.data) as { readonly code?: string };
      if (code === 'key-invalid') this.#leave();
    });
  };

  /** Tries again at once. */
  #reopen = (): void => {
    clearTimeout(this.#timer);
    if (!this.state.peek().isOpen) this.open();
  };

  #failed(source: EventSource): void {
    const attempts = this.state.peek().attempts + 1;
    this.state.value = { isOpen: false, attempts };
    if (source.readyState !== EventSource.CLOSED) return;
    const delay = delaysMs[Math.min(attempts, delaysMs.length) - 1];
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#probe(), delay);
  }

  /** An EventSource hides the status of the answer, so another read finds a session that ended. */
  async #probe(): Promise<void> {
    try {
      await api.get('/api/v1/quota', {});
    } catch (error) {
      if (error instanceof ApiError && error.problem.status === 401) return;
    }
    this.open();
  }

  #leave(): void {
    this.#source?.close();
    signIn();
  }
}
