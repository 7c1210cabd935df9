import { api, ApiError } from './api.ts';

const kinds = ['snapshot', 'conversation', 'start_task', 'sandbox', 'quota', 'removed'] as const;
/** Delays before the attempts after the service has refused the stream; the last one repeats. */
const delaysMs = [1_000, 2_000, 5_000, 10_000, 30_000];
const path = '/api/v1/stream';

/** An event of the stream, or a change of its state. */
export type News =
  | { readonly type: 'open' }
  /** `attempts` counts the failed ones since the stream last was open. */
  | { readonly type: 'failed'; readonly attempts: number }
  /** `data` is JSON, as the service has sent it. */
  | { readonly type: 'event'; readonly kind: (typeof kinds)[number]; readonly data: string }
  /** The session is over, and so is the stream. */
  | { readonly type: 'signed-out' };

/**
 * The stream of the service. The browser connects again by itself after a lost connection, with the
 * id of the last event; after an answer that is no stream, this class does.
 */
export class StreamSource {
  readonly #deliver: (news: News) => void;
  #source: EventSource | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #attempts = 0;
  #isFresh = true;

  constructor(deliver: (news: News) => void) {
    this.#deliver = deliver;
  }

  /** Whether nothing of the stream has arrived yet, so that a snapshot is still to come. */
  get isFresh(): boolean {
    return this.#isFresh;
  }

  /** Opens the stream anew, which begins with a snapshot. */
  open(): void {
    this.close();
    addEventListener('online', this.#retry);
    const source = new EventSource(path);
    this.#source = source;
    this.#isFresh = true;
    source.onopen = () => {
      this.#attempts = 0;
      this.#deliver({ type: 'open' });
    };
    source.onerror = () => this.#failed(source);
    for (const kind of kinds)
      source.addEventListener(kind, ({ data }: MessageEvent<string>) => {
        this.#isFresh = false;
        this.#deliver({ type: 'event', kind, data });
      });
    source.addEventListener('closed', ({ data }: MessageEvent<string>) => {
      const { code } = JSON.parse(data) as { readonly code?: string };
      if (code === 'key-invalid') this.#leave();
    });
  }

  close(): void {
    removeEventListener('online', this.#retry);
    clearTimeout(this.#timer);
    this.#source?.close();
  }

  /** Ends the stream, and opens it again if the session is still there. */
  verify(): void {
    this.#source?.close();
    if (this.#source !== undefined) this.#failed(this.#source);
  }

  /** Tries again at once. */
  #retry = (): void => {
    if (this.#attempts > 0) this.open();
  };

  #failed({ readyState }: EventSource): void {
    this.#attempts += 1;
    this.#deliver({ type: 'failed', attempts: this.#attempts });
    if (readyState !== EventSource.CLOSED) return;
    const delay = delaysMs[Math.min(this.#attempts, delaysMs.length) - 1];
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#probe(), delay);
  }

  /** An EventSource hides the status of the answer, so another read finds a session that ended. */
  async #probe(): Promise<void> {
    const source = this.#source;
    try {
      await api.get('/api/v1/quota', {});
    } catch (error) {
      if (error instanceof ApiError && error.problem.status === 401) {
        this.#leave();
        return;
      }
    }
    // Another call has opened or closed the stream meanwhile.
    if (this.#source === source) this.open();
  }

  #leave(): void {
    this.close();
    this.#deliver({ type: 'signed-out' });
  }
}
