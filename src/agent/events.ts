import type { Readable } from 'node:stream';
import { dashedUuid, parseUuid } from '@conversation-operator/kube/uuid';
import type { AgentEndpoint } from './agent.ts';
import { AgentError } from './errors.ts';
import { AgentHttp } from './http.ts';
import { countSchema } from './wire.ts';

export interface AgentEventsOptions {
  /** Milliseconds that an answer may take, from the request to its last byte; 30 000 by default. */
  readonly timeoutMs?: number;
  /** Milliseconds to connect, 3000 by default. */
  readonly connectTimeoutMs?: number;
}

export type EventQuery = Readonly<Record<string, string | number>>;

/** Reads the events of conversations for clients of the gateway. Throws `AgentError`. */
export class AgentEvents {
  readonly #http: AgentHttp;
  readonly #timeoutMs: number;

  constructor({ timeoutMs = 30_000, connectTimeoutMs = 3000 }: AgentEventsOptions = {}) {
    this.#http = new AgentHttp({ connectTimeoutMs });
    this.#timeoutMs = timeoutMs;
  }

  /**
   * A page of events: the JSON of the agent, not validated. The caller reads or destroys the
   * stream.
   */
  search(
    { baseUrl, sessionKey }: AgentEndpoint,
    id: string,
    query: EventQuery,
    signal: AbortSignal,
  ): Promise<Readable> {
    const headers = { 'x-session-api-key': sessionKey };
    return this.#http.open(baseUrl, {
      path: pathOf(id, 'search'),
      query,
      headers,
      timeoutMs: this.#timeoutMs,
      signal,
    });
  }

  async count(
    { baseUrl, sessionKey }: AgentEndpoint,
    id: string,
    query: EventQuery,
    signal: AbortSignal,
  ): Promise<number> {
    const headers = { 'x-session-api-key': sessionKey };
    const { body } = await this.#http.call(baseUrl, {
      ...{
        method: 'GET',
        path: pathOf(id, 'count'),
        query,
        headers,
        timeoutMs: this.#timeoutMs,
        signal,
      },
      answer: countSchema,
    });
    return body;
  }

  close(): Promise<void> {
    return this.#http.close();
  }
}

function pathOf(id: string, what: 'search' | 'count'): string {
  const hex = parseUuid(id);
  if (hex === undefined) throw new AgentError('refused', 'The conversation id is not a UUID.');
  return `/api/conversations/${dashedUuid(hex)}/events/${what}`;
}
