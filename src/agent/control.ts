import type { AgentConversation, AgentEndpoint } from './agent.ts';
import { AgentError } from './errors.ts';
import { OpenHandsApi, maxPageBytes, pathOf, type ConfirmationAnswer } from './openhands-api.ts';
import { conversationOf } from './openhands-mapping.ts';
import {
  actionEventsSchema,
  conversationInfoSchema,
  rejectionsSchema,
  type ActionEvent,
} from './wire.ts';

/** The newest actions of a conversation, and whether they wait for an answer. */
export interface RecentActions {
  readonly conversation: AgentConversation;
  /** Newest first. */
  readonly actions: readonly ActionEvent[];
}

/** Maximum actions that are read: a model seldom requests more than some at once. */
const maxActions = 20;
/** Maximum reads of a conversation that changes meanwhile. */
const maxAttempts = 5;
const newest = { sort_order: 'TIMESTAMP_DESC', limit: maxActions } as const;

/**
 * Calls for a person: what the agent asks, the answer, and the end of a run. The agent's protocol
 * has no id of a question: an answer is for all actions that wait when it arrives. Throws
 * `AgentError`.
 */
export class AgentControl {
  readonly #api: OpenHandsApi;

  constructor({ timeoutMs = 30_000, connectTimeoutMs = 3000 } = {}) {
    this.#api = new OpenHandsApi({ timeoutMs, connectTimeoutMs });
  }

  async recentActions(
    endpoint: AgentEndpoint,
    id: string,
    signal: AbortSignal,
  ): Promise<RecentActions> {
    const read = async () =>
      conversationOf(
        await this.#api.get(endpoint, { signal }, pathOf(id), conversationInfoSchema),
        id,
      );
    for (let before = await read(), attempt = 1; ; attempt++) {
      const { items: actions } = await this.#api.get(
        endpoint,
        { signal },
        `${pathOf(id)}/events/search`,
        actionEventsSchema,
        { query: { ...newest, kind: 'ActionEvent' }, maxBodyBytes: maxPageBytes },
      );
      const conversation = await read();
      // The actions are those of the status only where nothing has happened between the reads.
      if (conversation.updatedAt === before.updatedAt) return { conversation, actions };
      if (attempt === maxAttempts)
        throw new AgentError('busy', 'The conversation changes too fast to be read.');
      before = conversation;
    }
  }

  /** Ids of the actions that were rejected last. */
  async rejectedActions(
    endpoint: AgentEndpoint,
    id: string,
    signal: AbortSignal,
  ): Promise<readonly string[]> {
    const path = `${pathOf(id)}/events/search`;
    const { items } = await this.#api.get(endpoint, { signal }, path, rejectionsSchema, {
      query: { ...newest, kind: 'UserRejectObservation' },
    });
    return items.flatMap(({ action_id }) => action_id ?? []);
  }

  respond(
    endpoint: AgentEndpoint,
    id: string,
    answer: ConfirmationAnswer,
    signal: AbortSignal,
  ): Promise<void> {
    return this.#api.respond(endpoint, { signal }, id, answer);
  }

  /** Kills the running tool call and pauses the run; nothing happens when nothing runs. */
  interrupt(endpoint: AgentEndpoint, id: string, signal: AbortSignal): Promise<void> {
    return this.#api.post(endpoint, { signal }, `${pathOf(id)}/interrupt`);
  }

  close(): Promise<void> {
    return this.#api.close();
  }
}
