import type { Conversation } from './conversation.ts';
import { EventPost, type EventPostLimits, type Post } from './event-post.ts';
import { fullStateEvent, infoOf } from './presenters.ts';

/** Settings of one receiver. */
export interface WebhookSettings extends EventPostLimits {
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
}

interface Options {
  readonly settings: readonly WebhookSettings[];
  readonly sessionKey: string | undefined;
  readonly log: (message: string, error?: unknown) => void;
}

/** Maximum time for a response; a later response counts as a failure. */
const responseTimeoutMs = 30_000;
/** Maximum duration of the last flush when the server stops; unsent events are then dropped. */
const maxLastFlushMs = 1_000;

/**
 * Notifies receivers of changes of conversations, as the server of the protocol does. No caller
 * waits for a receiver.
 */
export class Webhooks {
  readonly #options: Options;
  readonly #posts = new Map<
    Conversation,
    { readonly posts: readonly EventPost[]; readonly unsubscribe: () => void }
  >();
  readonly #closing = new AbortController();

  constructor(options: Options) {
    this.#options = options;
  }

  /** Sends the full state of a conversation and then its events. */
  follow(conversation: Conversation): void {
    const posts = this.#options.settings.map(
      (settings) =>
        new EventPost({
          ...settings,
          post: this.#poster(settings, `events/${conversation.meta.id}`),
          log: this.#options.log,
        }),
    );
    if (posts.length === 0) return;
    const add = (event: object) => {
      const text = JSON.stringify(event);
      for (const post of posts) post.add(text);
    };
    add(fullStateEvent(conversation));
    const unsubscribe = conversation.log.subscribe((events) => events.forEach(add));
    this.#posts.set(conversation, { posts, unsubscribe });
  }

  /**
   * Notifies the receivers that a request has created, changed, stopped or deleted the
   * conversation.
   */
  notify(conversation: Conversation, changes: object = {}): void {
    if (this.#options.settings.length === 0) return;
    const body = JSON.stringify({ ...infoOf(conversation), ...changes });
    for (const settings of this.#options.settings) {
      const post = new EventPost({
        ...settings,
        bufferSize: 1,
        post: this.#poster(settings, 'conversations'),
        log: this.#options.log,
        bare: true,
      });
      post.add(body);
      // A failed notification is not kept, since the next one has the newer state.
      post.end();
    }
  }

  /** Ends the notifications about a conversation after its last events. */
  unfollow(conversation: Conversation): void {
    const followed = this.#posts.get(conversation);
    this.#posts.delete(conversation);
    followed?.unsubscribe();
    for (const post of followed?.posts ?? []) post.end();
  }

  /** Sends the waiting events within the time limit. */
  async close(): Promise<void> {
    const all = [...this.#posts.values()];
    for (const { unsubscribe } of all) unsubscribe();
    const timer = setTimeout(() => this.#closing.abort(), maxLastFlushMs);
    await Promise.all(all.flatMap(({ posts }) => posts.map((post) => post.close())));
    clearTimeout(timer);
    this.#closing.abort();
  }

  #poster({ baseUrl, headers }: WebhookSettings, path: string): Post {
    const { sessionKey } = this.#options;
    const url = new URL(`${baseUrl.replace(/\/$/, '')}/${path}`);
    const sent = {
      ...headers,
      'content-type': 'application/json',
      ...(sessionKey === undefined ? {} : { 'x-session-api-key': sessionKey }),
    };
    // An import of node:http would also load the HTTP client of browsers (fetch): 15 MB and 20 ms.
    const { request } = process.getBuiltinModule(
      url.protocol === 'https:' ? 'node:https' : 'node:http',
    );
    return {
      closing: this.#closing.signal,
      send: (body) =>
        new Promise((resolve, reject) => {
          const signal = AbortSignal.any([
            this.#closing.signal,
            AbortSignal.timeout(responseTimeoutMs),
          ]);
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
