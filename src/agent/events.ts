import type { Readable } from 'node:stream';
import { validUtf8 } from '@conversation-operator/base/utf8';
import type { AgentEndpoint } from './agent.ts';
import { isAgentError } from './errors.ts';
import { OpenHandsApi, pathOf } from './openhands-api.ts';
import { countSchema } from './wire.ts';
import { z } from 'zod';

export interface AgentEventsOptions {
  /** Milliseconds that an answer may take, from the request to its last byte; 30 000 by default. */
  readonly timeoutMs?: number;
  /** Milliseconds to connect, 3000 by default. */
  readonly connectTimeoutMs?: number;
}

export type EventQuery = Readonly<Record<string, string | number>>;

export interface EventRead {
  readonly conversation: string;
  /** Id of the event. The id is not validated. */
  readonly event: string;
  readonly maxBytes: number;
}

/** Path segments that are no event ids: other paths of the agent's API, and relative paths. */
const otherNames: ReadonlySet<string> = new Set(['', '.', '..', 'search', 'count']);
const isEventName = (id: string): boolean => id.isWellFormed() && !otherNames.has(id);

/** Reads events of conversations from agents, for clients of the gateway. Throws `AgentError`. */
export class AgentEvents {
  readonly #api: OpenHandsApi;

  constructor({ timeoutMs = 30_000, connectTimeoutMs = 3000 }: AgentEventsOptions = {}) {
    this.#api = new OpenHandsApi({ timeoutMs, connectTimeoutMs });
  }

  /** JSON page of events from the agent, not validated. The caller reads or destroys the stream. */
  async search(
    endpoint: AgentEndpoint,
    id: string,
    query: EventQuery,
    signal: AbortSignal,
  ): Promise<Readable> {
    return this.#api.stream(endpoint, { signal }, `${pathOf(id)}/events/search`, query);
  }

  /** An event as unvalidated JSON in UTF-8; undefined if none exists. Throws above `maxBytes`. */
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
   * Returns outputs, messages and thoughts that still grow, after the `cursor` of an earlier
   * answer. Undefined if the agent does not report such texts, or does not know the conversation.
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

const maxLiveBytes = 2 * 1024 * 1024;
const maxItems = 16;
const maxCursorLength = 512;

export const liveCursor = z
  .string()
  .regex(
    new RegExp(`^[A-Za-z0-9_:,-]{0,${maxCursorLength}}$`),
    'must be the cursor of an earlier answer',
  );

const liveItemSchema = z.object({
  id: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}$/)
    .describe('Names the text: another id is another text, for instance after a restart.'),
  kind: z.enum(['output', 'message', 'thought']),
  tool_call_id: z
    .string()
    .max(1024)
    .nullable()
    .describe('The call in the events whose output this is; else null.'),
  elapsed_ms: z.int().min(0).describe('Milliseconds since the text has begun.'),
  from: z
    .int()
    .min(0)
    .describe(
      'Place of this part in the whole text, in UTF-16 units. Beyond the end of the part before, the reader has missed what was between.',
    ),
  end: z.int().min(0).describe('Place where the next part begins.'),
  text: z.string().describe('The part, without the secrets that the service knows.'),
});

/** Parts of outputs, messages and thoughts that still grow. No event contains these parts yet. */
export const liveSchema = z.object({
  items: z.array(liveItemSchema).max(maxItems),
  cursor: liveCursor
    .nullable()
    .describe(
      'The next read continues after it. Null: the agent reports nothing but its events, and need not be asked again.',
    ),
  last_event_id: z
    .string()
    .max(1024)
    .nullable()
    .describe('The last event that the agent has stored; the items begin behind it.'),
  run_ms: z.int().min(0).nullable().describe('Milliseconds since the run has begun.'),
});
export type LiveActivity = z.output<typeof liveSchema>;
