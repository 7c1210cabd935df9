import type { Readable } from 'node:stream';
import { validUtf8 } from '@conversation-operator/base/utf8';
import type { AgentEndpoint } from './agent.ts';
import { isAgentError } from './errors.ts';
import { liveSchema, maxLiveBytes, type LiveActivity } from './live.ts';
import { OpenHandsApi, pathOf } from './openhands-api.ts';
import { countSchema } from './wire.ts';

export interface AgentEventsOptions {
  /** Milliseconds that an answer may take, from the request to its last byte; 30 000 by default. */
  readonly timeoutMs?: number;
  /** Milliseconds to connect, 3000 by default. */
  readonly connectTimeoutMs?: number;
}

export type EventQuery = Readonly<Record<string, string | number>>;

export interface EventRead {
  readonly conversation: string;
  /** Id of the event, of which nothing is known. */
  readonly event: string;
  readonly maxBytes: number;
}

/** Names beside those of events in the path of the agent, and steps to its other paths. */
const otherNames: ReadonlySet<string> = new Set(['', '.', '..', 'search', 'count']);
const isEventName = (id: string): boolean => id.isWellFormed() && !otherNames.has(id);

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

  /**
   * The JSON of an event in UTF-8, not validated; undefined where the agent does not know the
   * event, or the conversation. Throws for an answer of more than `maxBytes`.
   */
  async event(
    endpoint: AgentEndpoint,
    { conversation, event, maxBytes }: EventRead,
    signal: AbortSignal,
  ): Promise<Buffer | undefined> {
    if (!isEventName(event)) return undefined;
    const path = `${pathOf(conversation)}/events/${encodeURIComponent(event)}`;
    try {
      return validUtf8(await this.#api.bytes(endpoint, { signal }, path, {}, maxBytes));
    } catch (error) {
      if (isAgentError(error, 'not-found')) return undefined;
      throw error;
    }
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

  /**
   * The texts that grow now and that no event has yet, since the cursor of an earlier answer.
   * Undefined where the agent reports nothing of it, or does not know the conversation.
   */
  async live(
    endpoint: AgentEndpoint,
    id: string,
    after: string,
    signal: AbortSignal,
  ): Promise<LiveActivity | undefined> {
    const path = `${pathOf(id)}/live`;
    const details = { query: { after }, maxBodyBytes: maxLiveBytes };
    try {
      return await this.#api.get(endpoint, { signal }, path, liveSchema, details);
    } catch (error) {
      if (isAgentError(error, 'not-found')) return undefined;
      throw error;
    }
  }

  close(): Promise<void> {
    return this.#api.close();
  }
}
