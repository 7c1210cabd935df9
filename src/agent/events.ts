import type { Readable } from 'node:stream';
import type { AgentEndpoint } from './agent.ts';
import { OpenHandsApi, pathOf } from './openhands-api.ts';
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
  readonly #api: OpenHandsApi;

  constructor({ timeoutMs = 30_000, connectTimeoutMs = 3000 }: AgentEventsOptions = {}) {
    this.#api = new OpenHandsApi({ timeoutMs, connectTimeoutMs });
  }

  /**
   * A page of events: the JSON of the agent, not validated. The caller reads or destroys the
   * stream.
   */
  async search(
    endpoint: AgentEndpoint,
    id: string,
    query: EventQuery,
    signal: AbortSignal,
  ): Promise<Readable> {
    return this.#api.stream(endpoint, { signal }, `${pathOf(id)}/events/search`, query);
  }

  async count(
    endpoint: AgentEndpoint,
    id: string,
    query: EventQuery,
    signal: AbortSignal,
  ): Promise<number> {
    const path = `${pathOf(id)}/events/count`;
    return this.#api.get(endpoint, { signal }, path, countSchema, { query });
  }

  close(): Promise<void> {
    return this.#api.close();
  }
}
