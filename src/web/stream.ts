import { signal } from '@preact/signals';
import { signIn, api, ApiError } from './api.ts';
import type { Change } from './wire.ts';

const kinds = ['snapshot', 'conversation', 'start_task', 'sandbox', 'quota', 'removed'] as const;
/** Delays before reconnections after the gateway has refused the stream; the last one repeats. */
const delaysMs = [1_000, 2_000, 5_000, 10_000, 30_000];
const path = '/api/v1/stream';

type News =
  | { readonly type: 'open' }
  /** `attempts` is the number of failures since the stream was last open. */
  | { readonly type: 'failed'; readonly attempts: number }
  /** `data` is JSON, as the gateway has sent it. */
  | { readonly type: 'event'; readonly kind: (typeof kinds)[number]; readonly data: string }
  /** The session has ended, and so has the stream. */
  | { readonly type: 'signed-out' };

/** An event stream. The browser retries a lost connection; this class retries a refused request. */
class StreamSource {
  readonly #deliver: (news: News) => void;
  #source: EventSource | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #attempts = 0;
  #isFresh = true;

  constructor(deliver: (news: News) => void) {
    this.#deliver = deliver;
  }

  /** Whether no event has arrived yet, so that the snapshot is still to come. */
  get isFresh(): boolean {
    return this.#isFresh;
  }

  /** Opens a new stream, which begins with a snapshot. */
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
      if (code !== 'key-invalid') return;
      source.close();
      // The next request may have the person confirmed, so that the page stays.
      void this.#probe();
    });
  }

  close(): void {
    removeEventListener('online', this.#retry);
    clearTimeout(this.#timer);
    this.#source?.close();
  }

  /** Closes the stream, and opens it again if the session still exists. */
  verify(): void {
    this.#source?.close();
    if (this.#source !== undefined) this.#failed(this.#source);
  }

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

  /** An EventSource hides the status of a response, so this request detects an ended session. */
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
    // Another call may have opened or closed the stream during the request.
    if (this.#source === source) this.open();
  }

  #leave(): void {
    this.close();
    this.#deliver({ type: 'signed-out' });
  }
}

/** Name of the lock of the tab that holds the stream, and of the channel to the other tabs. */
const shared = 'conversation-operator-stream';
/** Delay before a hidden tab releases the stream. */
const hiddenMs = 30_000;

/** A message to other tabs. `holder` names the stream of a tab; each new stream has a new name. */
type Message =
  | { readonly type: 'news'; readonly holder: string; readonly news: News }
  /** The sender needs a snapshot, unless `holder` is the name of the stream that is open now. */
  | { readonly type: 'joined'; readonly holder: string }
  | { readonly type: 'signing-out' };

/** The state of the stream. `attempts` is the number of failures since it was last open. */
export interface StreamState {
  readonly isOpen: boolean;
  readonly attempts: number;
}

/**
 * The changes of all records. A browser has only six connections to a host over HTTP/1.1, so all
 * tabs share one stream: a visible tab holds it and forwards its events. Without TLS, browsers have
 * no locks for a page from another machine, so each visible tab has its own stream.
 */
export class ChangeStream {
  readonly state = signal<StreamState>({ isOpen: false, attempts: 0 });
  /** Time of the last event; undefined before the first one. */
  lastNews: number | undefined;
  readonly #onChange: (parse: () => Change) => void;
  readonly #channel = new BroadcastChannel(shared);
  /** Name of the stream that this tab follows and whose snapshot it has; empty if there is none. */
  #holder = '';
  #source: StreamSource | undefined;
  /** Closes the stream of this tab, or cancels its request for the lock; undefined without both. */
  #letGo: (() => void) | undefined;
  #hidden: ReturnType<typeof setTimeout> | undefined;

  /** The page calls `parse` when it applies the change. */
  constructor(onChange: (parse: () => Change) => void) {
    this.#onChange = onChange;
  }

  open(): void {
    this.#channel.onmessage = ({ data }: MessageEvent<Message>) => this.#hear(data);
    document.addEventListener('visibilitychange', this.#followIfVisible);
    this.#followIfVisible();
  }

  /** Tells other tabs about a sign-out, which the replica with their stream may not notice. */
  beginSignOut(): void {
    this.#channel.postMessage({ type: 'signing-out' } satisfies Message);
  }

  #followIfVisible = (): void => {
    clearTimeout(this.#hidden);
    if (document.visibilityState === 'visible') this.#follow();
    else this.#hidden = setTimeout(() => this.#letGo?.(), hiddenMs);
  };

  /** Follows the tab that holds the stream, and holds the stream when no other tab does. */
  #follow(): void {
    if (this.#source !== undefined) return;
    this.#channel.postMessage({ type: 'joined', holder: this.#holder } satisfies Message);
    if (this.#letGo !== undefined) return;
    const over = new AbortController();
    this.#letGo = () => {
      this.#letGo = undefined;
      over.abort();
    };
    if (!('locks' in navigator)) void this.#hold(over.signal);
    else
      navigator.locks
        .request(shared, { signal: over.signal }, () => this.#hold(over.signal))
        // The request is aborted if the tab is hidden before it gets the lock.
        .catch(() => undefined);
  }

  async #hold(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const holder = `${Date.now()}-${Math.random()}`;
    const source = new StreamSource((news) => {
      this.#channel.postMessage({ type: 'news', holder, news } satisfies Message);
      this.#take(news);
    });
    this.#holder = holder;
    this.#source = source;
    source.open();
    await new Promise((resolve) => {
      signal.addEventListener('abort', resolve, { once: true });
    });
    source.close();
    this.#source = undefined;
  }

  #hear(message: Message): void {
    switch (message.type) {
      case 'news':
        // In a browser without locks, each tab has its own stream and ignores those of other tabs.
        if (this.#source !== undefined) return;
        this.#holder = message.holder;
        this.#take(message.news);
        return;
      case 'joined':
        if (this.#source?.isFresh === false && message.holder !== this.#holder) this.#source.open();
        return;
      case 'signing-out':
        this.#source?.verify();
    }
  }

  #take(news: News): void {
    switch (news.type) {
      case 'open':
        this.lastNews = Date.now();
        this.state.value = { isOpen: true, attempts: 0 };
        return;
      case 'failed':
        this.state.value = { isOpen: false, attempts: news.attempts };
        return;
      case 'event': {
        const { kind, data } = news;
        this.lastNews = Date.now();
        // A tab that has joined later does not know that the stream is open.
        if (!this.state.peek().isOpen) this.state.value = { isOpen: true, attempts: 0 };
        // The gateway validates its events, so the page does not check them against the types.
        this.#onChange(() => JSON.parse(`{"kind":"${kind}","data":${data}}`) as Change);
        return;
      }
      case 'signed-out':
        signIn();
    }
  }
}
