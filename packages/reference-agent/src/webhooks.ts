import type { Conversation } from './conversation.ts';
import { EventPost, type Post } from './event-post.ts';
import { fullStateEvent, infoOf } from './views.ts';

/** Where to say what happens. Times in milliseconds. */
export interface WebhookSettings {
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly bufferSize: number;
  readonly flushDelayMs: number;
  readonly retries: number;
  readonly retryDelayMs: number;
  readonly maxQueuedEvents: number;
  readonly maxQueuedBytes: number;
  readonly maxBatchBytes: number;
}

/** A receiver that takes longer than this has not taken it. */
const answerTimeoutMs = 30_000;
/** When the server stops: what has not gone out by then does not. */
const lastFlushMs = 1_000;

/** Tells receivers what happens in conversations, as the protocol's server does. Nothing here waits for a receiver. */
export class Webhooks {
  readonly #settings: readonly WebhookSettings[];
  readonly #sessionKey: string | undefined;
  readonly #posts = new Map<Conversation, { readonly posts: readonly EventPost[]; readonly leave: () => void }>();
  readonly #closing = new AbortController();
  readonly #log: (message: string, error?: unknown) => void;

  constructor(options: {
    readonly settings: readonly WebhookSettings[];
    readonly sessionKey: string | undefined;
    readonly log: (message: string, error?: unknown) => void;
  }) {
    this.#settings = options.settings;
    this.#sessionKey = options.sessionKey;
    this.#log = options.log;
  }

  /** From now on its events are told; first how it stands. */
  follow(conversation: Conversation): void {
    const posts = this.#settings.map(
      (settings) => new EventPost({ ...settings, post: this.#poster(settings, `events/${conversation.meta.id}`), log: this.#log }),
    );
    if (posts.length === 0) return;
    const add = (event: object) => {
      const text = JSON.stringify(event);
      for (const post of posts) post.add(text);
    };
    add(fullStateEvent(conversation));
    const leave = conversation.log.subscribe((events) => events.forEach(add));
    this.#posts.set(conversation, { posts, leave });
  }

  /** It was created, stopped, changed or deleted by a request. */
  tell(conversation: Conversation, changes: object = {}): void {
    if (this.#settings.length === 0) return;
    const body = JSON.stringify({ ...infoOf(conversation), ...changes });
    for (const settings of this.#settings) {
      const post = new EventPost({ ...settings, bufferSize: 1, post: this.#poster(settings, 'conversations'), log: this.#log, bare: true });
      post.add(body);
      // A conversation's own word is not kept for later: the next one says more.
      post.end();
    }
  }

  /** Its last events still go out. */
  leave(conversation: Conversation): void {
    const followed = this.#posts.get(conversation);
    this.#posts.delete(conversation);
    followed?.leave();
    for (const post of followed?.posts ?? []) post.end();
  }

  /** Sends what waits, as far as it can be done soon. */
  async close(): Promise<void> {
    const all = [...this.#posts.values()];
    for (const { leave } of all) leave();
    const timer = setTimeout(() => this.#closing.abort(), lastFlushMs);
    await Promise.all(all.flatMap(({ posts }) => posts.map((post) => post.close())));
    clearTimeout(timer);
    this.#closing.abort();
  }

  #poster({ baseUrl, headers }: WebhookSettings, path: string): Post {
    const url = new URL(`${baseUrl.replace(/\/$/, '')}/${path}`);
    const sent = {
      ...headers,
      'content-type': 'application/json',
      ...(this.#sessionKey === undefined ? {} : { 'x-session-api-key': this.#sessionKey }),
    };
    // An import of node:http also loads what browsers have for HTTP: 15 MB and 20 ms.
    const { request } = process.getBuiltinModule(url.protocol === 'https:' ? 'node:https' : 'node:http');
    return {
      closing: this.#closing.signal,
      send: (body) =>
        new Promise((resolve, reject) => {
          const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(answerTimeoutMs)]);
          const outgoing = request(url, {
            method: 'POST',
            headers: { ...sent, 'content-length': Buffer.byteLength(body) },
            agent: false,
            signal,
          });
          outgoing.once('error', reject);
          outgoing.once('response', (response) => {
            response.resume().once('error', reject);
            const status = response.statusCode ?? 0;
            if (status >= 200 && status < 300) resolve();
            else reject(new Error(`the receiver answered ${status}`));
          });
          outgoing.end(body);
        }),
    };
  }
}
