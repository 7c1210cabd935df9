import type { z } from 'zod';
import { dashedUuid, parseUuid } from '@conversation-operator/kube/uuid';
import type { AgentCallOptions, AgentEndpoint } from './agent.ts';
import { Deadline } from './deadline.ts';
import { AgentError } from './errors.ts';
import { AgentHttp, type AgentAnswer, type AgentRequest, type KeepAlive } from './http.ts';

export type Call<T> = Omit<AgentRequest<T>, 'timeoutMs' | 'signal'> & { readonly timeoutMs?: number };

export interface Page<T> {
  readonly items: readonly T[];
  readonly next_page_id?: string | null | undefined;
}

export interface OpenHandsApiOptions {
  /** Milliseconds that a call may take which says nothing else. */
  readonly timeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly keepAlive?: KeepAlive | undefined;
}

/** Pages of one answer; an agent may have no end of them. */
const maxPages = 20;
/** A page of conversations or messages is large; of a hostile agent it is a second of work for all others. */
const maxPageBytes = 4 * 1024 * 1024;

/** Calls with the session key, and pages. Throws `AgentError`. */
export class OpenHandsApi {
  readonly #http: AgentHttp;
  readonly #timeoutMs: number;

  constructor({ timeoutMs, ...connections }: OpenHandsApiOptions) {
    this.#http = new AgentHttp(connections);
    this.#timeoutMs = timeoutMs;
  }

  /** What needs no key. */
  open<T>({ baseUrl }: AgentEndpoint, { signal }: AgentCallOptions, call: Call<T>): Promise<AgentAnswer<T>> {
    return this.#http.call(baseUrl, { timeoutMs: this.#timeoutMs, ...call, signal });
  }

  call<T>({ baseUrl, sessionKey }: AgentEndpoint, { signal }: AgentCallOptions, call: Call<T>): Promise<AgentAnswer<T>> {
    return this.#http.call(baseUrl, { timeoutMs: this.#timeoutMs, ...call, headers: { 'x-session-api-key': sessionKey }, signal });
  }

  /**
   * The items of up to 20 pages, in one deadline for all of them. A page that names one that was there before is the last: an agent
   * that does not know a page id begins anew, without a word. Ends with the first page that `isEnough`.
   */
  async pages<T>(
    endpoint: AgentEndpoint,
    { signal }: AgentCallOptions,
    { path, query, answer }: { readonly path: string; readonly query: NonNullable<Call<T>['query']>; readonly answer: z.ZodType<Page<T>> },
    isEnough: (items: readonly T[]) => boolean = () => false,
  ): Promise<readonly T[]> {
    const deadline = new Deadline(this.#timeoutMs, signal);
    const items: T[] = [];
    const seen = new Set<string>();
    let pageId: string | undefined;
    try {
      while (seen.size < maxPages) {
        const page = await this.#page(endpoint, deadline, { path, query, answer, pageId });
        items.push(...page.items);
        pageId = page.next_page_id ?? undefined;
        if (pageId === undefined || seen.has(pageId) || isEnough(page.items)) break;
        seen.add(pageId);
      }
    } finally {
      deadline.end();
    }
    return items;
  }

  close(): Promise<void> {
    return this.#http.close();
  }

  async #page<T>(
    endpoint: AgentEndpoint,
    deadline: Deadline,
    {
      path,
      query,
      answer,
      pageId,
    }: { path: string; query: NonNullable<Call<T>['query']>; answer: z.ZodType<Page<T>>; pageId: string | undefined },
  ): Promise<Page<T>> {
    try {
      const { body } = await this.call(endpoint, deadline, {
        method: 'GET',
        path,
        query: { ...query, ...(pageId === undefined ? {} : { page_id: pageId }) },
        answer,
        maxBodyBytes: maxPageBytes,
      });
      return body;
    } catch (error) {
      // By the deadline of all pages, and not by whoever called.
      const late = error instanceof AgentError && error.code === 'aborted' && deadline.hasPassed;
      throw late ? new AgentError('timeout', `The agent did not answer within ${this.#timeoutMs / 1000} s.`, { cause: error }) : error;
    }
  }
}

/** Throws for what is no UUID: ids come from names that people choose, and a path must stay the one meant. */
export function pathOf(id: string): string {
  return `/api/conversations/${dashedUuid(hexOf(id))}`;
}

export function hexOf(id: string): string {
  const hex = parseUuid(id);
  if (hex === undefined) throw new AgentError('refused', 'The conversation id is not a UUID.');
  return hex;
}
