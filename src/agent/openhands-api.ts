import type { z } from 'zod';
import { dashedUuid, parseUuid } from '@conversation-operator/kube/uuid';
import type { KeepAlive } from '@conversation-operator/http/client/bounded-client';
import { Deadline } from '@conversation-operator/http/client/deadline';
import type { AgentCallOptions, AgentEndpoint } from './agent.ts';
import { AgentError } from './errors.ts';
import { AgentHttp, type AgentAnswer, type AgentRequest } from './http.ts';

export type Call<T> = Omit<AgentRequest<T>, 'timeoutMs' | 'signal'> & {
  readonly timeoutMs?: number;
};

export interface Page<T> {
  readonly items: readonly T[];
  readonly next_page_id?: string | null | undefined;
}

export interface OpenHandsApiOptions {
  /** Default deadline of a call, in milliseconds. */
  readonly timeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly keepAlive?: KeepAlive | undefined;
}

/** Maximum pages of one list; a hostile agent may send pages without end. */
const maxPages = 20;
/**
 * Maximum bytes of a page of conversations or messages; a hostile agent's page blocks all others
 * for at most a second.
 */
const maxPageBytes = 4 * 1024 * 1024;

/** Calls with the session key, and lists of pages. Throws `AgentError`. */
export class OpenHandsApi {
  readonly #http: AgentHttp;
  readonly #timeoutMs: number;

  constructor({ timeoutMs, ...connections }: OpenHandsApiOptions) {
    this.#http = new AgentHttp(connections);
    this.#timeoutMs = timeoutMs;
  }

  /** A call without a key. */
  open<T>(
    { baseUrl }: AgentEndpoint,
    { signal }: AgentCallOptions,
    call: Call<T>,
  ): Promise<AgentAnswer<T>> {
    return this.#http.call(baseUrl, { timeoutMs: this.#timeoutMs, ...call, signal });
  }

  call<T>(
    { baseUrl, sessionKey }: AgentEndpoint,
    { signal }: AgentCallOptions,
    call: Call<T>,
  ): Promise<AgentAnswer<T>> {
    return this.#http.call(baseUrl, {
      timeoutMs: this.#timeoutMs,
      ...call,
      headers: { 'x-session-api-key': sessionKey },
      signal,
    });
  }

  /**
   * Returns the items of up to 20 pages within one deadline. The list ends with the first page that
   * `isEnough`, and with a page whose next page was read before: an agent that does not know a page
   * id silently restarts from the first page.
   */
  async pages<T>(
    endpoint: AgentEndpoint,
    { signal }: AgentCallOptions,
    {
      path,
      query,
      answer,
    }: {
      readonly path: string;
      readonly query: NonNullable<Call<T>['query']>;
      readonly answer: z.ZodType<Page<T>>;
    },
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
    }: {
      path: string;
      query: NonNullable<Call<T>['query']>;
      answer: z.ZodType<Page<T>>;
      pageId: string | undefined;
    },
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
      // The deadline of all pages has passed; the caller has not aborted.
      const late = error instanceof AgentError && error.code === 'aborted' && deadline.hasPassed;
      throw late
        ? new AgentError(
            'timeout',
            `The agent did not answer within ${this.#timeoutMs / 1000} s.`,
            { cause: error },
          )
        : error;
    }
  }
}

/**
 * Throws for a text that is no UUID: users choose names of conversations, and a name must not
 * change the path.
 */
export function pathOf(id: string): string {
  return `/api/conversations/${dashedUuid(hexOf(id))}`;
}

export function hexOf(id: string): string {
  const hex = parseUuid(id);
  if (hex === undefined) throw new AgentError('refused', 'The conversation id is not a UUID.');
  return hex;
}
