import type { Readable } from 'node:stream';
import type { z } from 'zod';
import { dashedUuid, parseUuid } from '@conversation-operator/base/uuid';
import { type KeepAlive, Deadline } from '@conversation-operator/http/client/bounded-client';
import type { AgentCallOptions, AgentEndpoint } from './agent.ts';
import { AgentError, isAgentError } from './errors.ts';
import { AgentHttp, type AgentAnswer, type AgentReading, type AgentRequest } from './http.ts';
import { successSchema } from './wire.ts';

export type Call<T> = Omit<AgentRequest<T>, 'timeoutMs' | 'signal'> & {
  readonly timeoutMs?: number;
};
type CallDetails = Omit<Call<never>, 'method' | 'path' | 'answer'>;

export interface Page<T> {
  readonly items: readonly T[];
  readonly next_page_id?: string | null | undefined;
}

export type ConfirmationAnswer =
  { readonly accept: true } | { readonly accept: false; readonly reason: string };

export interface OpenHandsApiOptions {
  readonly timeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly keepAlive?: KeepAlive | undefined;
}

/** Maximum pages of one list. A hostile agent may send pages without end. */
export const maxPages = 20;
/** Maximum bytes of a page. Parsing a page of this size blocks the process for at most a second. */
export const maxPageBytes = 4 * 1024 * 1024;

/** HTTP calls to openhands-agent-server. Throws `AgentError`. */
export class OpenHandsApi {
  readonly #http: AgentHttp;
  readonly #timeoutMs: number;

  constructor({ timeoutMs, ...connections }: OpenHandsApiOptions) {
    this.#http = new AgentHttp(connections);
    this.#timeoutMs = timeoutMs;
  }

  /** Sends a request without the session key. */
  open<T>(
    { baseUrl }: AgentEndpoint,
    { signal }: AgentCallOptions = {},
    call: Call<T>,
  ): Promise<AgentAnswer<T>> {
    return this.#http.call(baseUrl, { timeoutMs: this.#timeoutMs, ...call, signal });
  }

  call<T>(
    endpoint: AgentEndpoint,
    options: AgentCallOptions | undefined,
    call: Call<T>,
  ): Promise<AgentAnswer<T>> {
    return this.open(endpoint, options, { ...call, headers: keyOf(endpoint) });
  }

  async get<T>(
    endpoint: AgentEndpoint,
    options: AgentCallOptions | undefined,
    path: string,
    answer: z.ZodType<T>,
    details?: CallDetails,
  ): Promise<T> {
    const call = { ...details, method: 'GET', path, answer } as const;
    return (await this.call(endpoint, options, call)).body;
  }

  /** Sends a request whose answer has no content to read. */
  async post(
    endpoint: AgentEndpoint,
    options: AgentCallOptions | undefined,
    path: string,
    details?: CallDetails,
  ): Promise<void> {
    const answer = successSchema;
    await this.call(endpoint, options, { ...details, method: 'POST', path, answer });
  }

  /** Requests a run. A conversation that runs already answers 409, which is no failure. */
  async run(
    endpoint: AgentEndpoint,
    options: AgentCallOptions | undefined,
    path: string,
  ): Promise<void> {
    try {
      await this.post(endpoint, options, path);
    } catch (error) {
      if (!(error instanceof AgentError && error.status === 409)) throw error;
    }
  }

  /** Approves or rejects the pending tool calls of a conversation. */
  respond(
    endpoint: AgentEndpoint,
    options: AgentCallOptions | undefined,
    id: string,
    answer: ConfirmationAnswer,
  ): Promise<void> {
    const path = `${pathOf(id)}/events/respond_to_confirmation`;
    return this.post(endpoint, options, path, { body: answer });
  }

  /** JSON of the agent, not validated. The caller reads or destroys the stream. */
  stream(
    endpoint: AgentEndpoint,
    { signal }: AgentCallOptions,
    path: string,
    query: NonNullable<AgentReading['query']>,
  ): Promise<Readable> {
    const headers = keyOf(endpoint);
    const timeoutMs = this.#timeoutMs;
    return this.#http.open(endpoint.baseUrl, { path, query, headers, timeoutMs, signal });
  }

  bytes(
    endpoint: AgentEndpoint,
    { signal }: AgentCallOptions,
    path: string,
    query: NonNullable<AgentReading['query']>,
    maxBytes: number,
  ): Promise<Buffer> {
    const headers = keyOf(endpoint);
    const timeoutMs = this.#timeoutMs;
    const options = { path, query, headers, timeoutMs, signal };
    return this.#http.bytes(endpoint.baseUrl, options, maxBytes);
  }

  /**
   * Returns the items of up to 20 pages within one deadline. The list ends after the first page for
   * which `isEnough` returns true, and before a page that was already read: an agent that does not
   * know a page id sends the first page again without an error.
   */
  async pages<T>(
    endpoint: AgentEndpoint,
    { signal }: AgentCallOptions = {},
    path: string,
    answer: z.ZodType<Page<T>>,
    query: NonNullable<AgentReading['query']>,
    isEnough: (items: readonly T[]) => boolean = () => false,
    details: Pick<CallDetails, 'hasExactNumbers'> = {},
  ): Promise<readonly T[]> {
    const deadline = new Deadline(this.#timeoutMs, signal);
    const items: T[] = [];
    const seen = new Set<string>();
    let pageId: string | undefined;
    try {
      while (seen.size < maxPages) {
        const page = await this.get(endpoint, deadline, path, answer, {
          ...details,
          query: { ...query, ...(pageId === undefined ? {} : { page_id: pageId }) },
          maxBodyBytes: maxPageBytes,
        });
        items.push(...page.items);
        pageId = page.next_page_id ?? undefined;
        if (pageId === undefined || seen.has(pageId) || isEnough(page.items)) break;
        seen.add(pageId);
      }
      return items;
    } catch (error) {
      // The deadline of all pages has passed. The caller has not aborted.
      if (!isAgentError(error, 'aborted') || !deadline.hasPassed) throw error;
      const text = `The agent did not answer within ${this.#timeoutMs / 1000} s.`;
      throw new AgentError('timeout', text, { cause: error });
    } finally {
      deadline.end();
    }
  }

  close(): Promise<void> {
    return this.#http.close();
  }
}

const keyOf = ({ sessionKey }: AgentEndpoint) => ({ 'x-session-api-key': sessionKey });

/** API path of a conversation. Throws for a text that is no UUID and could change the path. */
export function pathOf(id: string): string {
  return `/api/conversations/${dashedUuid(hexOf(id))}`;
}

export function hexOf(id: string): string {
  const hex = parseUuid(id);
  if (hex === undefined) throw new AgentError('refused', 'The conversation id is not a UUID.');
  return hex;
}

/** Calls of the gateway to an agent on behalf of a person. Throws `AgentError`. */
export class AgentControl {
  readonly #api: OpenHandsApi;

  constructor({ timeoutMs = 30_000, connectTimeoutMs = 3000 } = {}) {
    this.#api = new OpenHandsApi({ timeoutMs, connectTimeoutMs });
  }

  /** Kills the running tool call and pauses the run. Without a run, the call has no effect. */
  interrupt(endpoint: AgentEndpoint, id: string, signal: AbortSignal): Promise<void> {
    return this.#api.post(endpoint, { signal }, `${pathOf(id)}/interrupt`);
  }

  close(): Promise<void> {
    return this.#api.close();
  }
}
