import type { Conversation } from './conversation.ts';
import { fullStateEvent, infoOf } from './presenters.ts';
import { setTimeout as sleep } from 'node:timers/promises';

interface Post {
  /** Resolves when the receiver has accepted the body. */
  send(body: string): Promise<void>;
  /** When aborted, the sender sends nothing more and waits for nothing. */
  readonly closing: AbortSignal;
}

interface EventPostLimits {
  readonly bufferSize: number;
  readonly flushDelayMs: number;
  /** Number of retries after the first attempt. If all fail, the events wait for the next flush. */
  readonly retries: number;
  readonly retryDelayMs: number;
  readonly maxQueuedEvents: number;
  readonly maxQueuedBytes: number;
  readonly maxBatchBytes: number;
}

export interface EventPostOptions extends EventPostLimits {
  readonly post: Post;
  readonly log: (message: string, error?: unknown) => void;
  /** Sends each event as an object instead of a list. */
  readonly bare?: boolean;
}

/**
 * Queue of events for one receiver. Sends them in order, with one request at a time, when
 * `bufferSize` events wait, or the first event has waited for `flushDelayMs`. Events that the
 * receiver rejects stay in the queue. Beyond its limits, the queue drops the oldest events.
 */
export class EventPost {
  readonly #options: EventPostOptions;
  #queue: string[] = [];
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #posting: Promise<void> | undefined;
  #ended = false;
  #failing = false;

  constructor(options: EventPostOptions) {
    this.#options = options;
  }

  add(event: string): void {
    if (this.#ended) return;
    this.#queue.push(event);
    this.#bytes += event.length;
    this.#trim();
    // While the receiver fails, only the timer starts a retry.
    if (this.#queue.length >= this.#options.bufferSize && !this.#failing) this.#flush();
    else this.#arm();
  }

  /** Accepts no further events, and sends the waiting ones without waiting for the result. */
  end(): void {
    this.#ended = true;
    this.#flush();
  }

  /** Ends the queue. Resolves when the waiting events were sent or have failed. */
  async close(): Promise<void> {
    this.end();
    while (this.#posting !== undefined) await this.#posting;
  }

  #arm(): void {
    if (this.#ended || this.#timer !== undefined || this.#queue.length === 0) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#flush();
    }, this.#options.flushDelayMs);
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#queue.length === 0 || this.#posting !== undefined) return;
    this.#posting = this.#work().finally(() => {
      this.#posting = undefined;
      if (this.#ended && !this.#failing) this.#flush();
      else this.#arm();
    });
  }

  /** Sends the waiting events, and continues while at least `bufferSize` events wait. */
  async #work(): Promise<void> {
    let left = this.#queue.length;
    do {
      const batch = this.#take(Math.min(left, this.#options.bufferSize));
      this.#failing = !(await this.#sent(batch));
      if (this.#failing) {
        this.#queue = [...batch, ...this.#queue];
        this.#bytes += lengthOf(batch);
        this.#trim();
        return;
      }
      left = Math.max(
        left - batch.length,
        this.#queue.length >= this.#options.bufferSize ? this.#queue.length : 0,
      );
    } while (left > 0);
  }

  #take(maxEvents: number): readonly string[] {
    let bytes = 0;
    let count = 0;
    for (const event of this.#queue.slice(0, maxEvents)) {
      bytes += event.length;
      if (count > 0 && bytes > this.#options.maxBatchBytes) break;
      count++;
    }
    const batch = this.#queue.splice(0, count);
    this.#bytes -= lengthOf(batch);
    return batch;
  }

  async #sent(batch: readonly string[]): Promise<boolean> {
    const { post, retries, retryDelayMs, log, bare } = this.#options;
    const body = bare === true ? (batch[0] ?? '') : `[${batch.join(',')}]`;
    for (let attempt = 0; ; attempt++) {
      try {
        await post.send(body);
        return true;
      } catch (error) {
        if (!this.#failing && attempt === 0) log('a webhook receiver did not accept events', error);
        // An ended queue does not retry, because no caller waits for it.
        if (attempt >= retries || this.#ended || post.closing.aborted) return false;
        await sleep(retryDelayMs, undefined, { signal: post.closing }).catch(() => undefined);
      }
    }
  }

  #trim(): void {
    const { maxQueuedEvents, maxQueuedBytes } = this.#options;
    while (
      this.#queue.length > maxQueuedEvents ||
      (this.#bytes > maxQueuedBytes && this.#queue.length > 0)
    )
      this.#bytes -= this.#queue.shift()?.length ?? 0;
  }
}

const lengthOf = (events: readonly string[]): number =>
  events.reduce((total, { length }) => total + length, 0);

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
/** Maximum duration of the last flush when the server stops. Unsent events are then dropped. */
const maxLastFlushMs = 1_000;

/** Notifies receivers of changes, as the OpenHands server does. No caller waits for a receiver. */
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

  /** Sends the full state of a conversation, and then its events. */
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

  /** Notifies receivers that a request has created, changed, stopped or deleted a conversation. */
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
      // A failed notification is not repeated, because the next one has a newer state.
      post.end();
    }
  }

  /** Sends the waiting events of a conversation, and stops sending further ones. */
  unfollow(conversation: Conversation): void {
    const followed = this.#posts.get(conversation);
    this.#posts.delete(conversation);
    followed?.unsubscribe();
    for (const post of followed?.posts ?? []) post.end();
  }

  /** Sends the waiting events of all conversations, within `maxLastFlushMs`. */
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
    // An import of node:http would also load the client `fetch`, which costs 15 MB and 20 ms.
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
