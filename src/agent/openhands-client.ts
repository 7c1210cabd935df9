import type {
  AgentCallOptions,
  AgentClient,
  AgentCommand,
  AgentCommandResult,
  AgentConversation,
  AgentEndpoint,
  AgentFailure,
  AgentInit,
  AgentLlm,
  AgentMessage,
  AgentServerInfo,
  AgentState,
  AgentUserMessage,
  NewAgentConversation,
} from './agent.ts';
import type { ExecutionStatus } from '../resources/conversation-status.ts';
import { AgentError } from './errors.ts';
import type { AgentAnswer, KeepAlive } from './http.ts';
import { OpenHandsApi, hexOf, pathOf } from './openhands-api.ts';
import { lastFailure } from './openhands-failures.ts';
import {
  commandResultOf,
  contentOf,
  conversationOf,
  conversationsOf,
  createBodyOf,
  llmOf,
  secretsOf,
  serverInfoOf,
  uidTag,
  userMessageOf,
  webhookOf,
} from './openhands-mapping.ts';
import * as wire from './wire.ts';

export interface OpenHandsClientOptions {
  /** Deadline of quick calls in milliseconds. Default: 10 000. */
  readonly timeoutMs?: number;
  /** Deadline of calls that wait for a running tool call, in milliseconds. Default: 300 000. */
  readonly slowTimeoutMs?: number;
  /**
   * Deadline of a conversation's creation in milliseconds. Default: 30 000; on a busy machine a new
   * agent takes seconds.
   */
  readonly createTimeoutMs?: number;
  /** Grace beyond a command's own time-out, in milliseconds. Default: 5000. */
  readonly commandSlackMs?: number;
  /** Deadline of a connection attempt in milliseconds. Default: 3000. */
  readonly connectTimeoutMs?: number;
  /** Maximum idle times of connections. Default: `defaultKeepAlive`. */
  readonly keepAlive?: KeepAlive;
  /** Monotonic clock in milliseconds. */
  readonly monotonic?: () => number;
}

/**
 * Maximum time within which the call that created a conversation may still add its first message.
 */
const createSettleMs = 3000;
const probeTimeoutMs = 3000;
/** Maximum bytes of a readiness answer; the operator probes a starting agent ten times a second. */
const maxProbeBytes = 64 * 1024;
const maxCommandAnswerBytes = 16 * 1024 * 1024;
const maxPageBytes = 4 * 1024 * 1024;
/**
 * Maximum bytes of a conversation: 7000 model calls of 265 bytes each. Many agents answer at the
 * same time, so the limit is low.
 */
const maxConversationBytes = 2 * 1024 * 1024;
/** Maximum messages of a page, because each may be large. */
const messagesPerPage = 10;
const conversationsPerPage = 20;

/** Client for the protocol of openhands-agent-server (1.58) and of the reference agent. */
export class OpenHandsClient implements AgentClient {
  readonly #api: OpenHandsApi;
  readonly #timeoutMs: number;
  readonly #slowTimeoutMs: number;
  readonly #createTimeoutMs: number;
  readonly #commandSlackMs: number;
  readonly #monotonic: () => number;

  constructor({
    timeoutMs = 10_000,
    slowTimeoutMs = 300_000,
    createTimeoutMs = 30_000,
    commandSlackMs = 5000,
    connectTimeoutMs = 3000,
    keepAlive,
    monotonic = () => performance.now(),
  }: OpenHandsClientOptions = {}) {
    this.#api = new OpenHandsApi({ timeoutMs, connectTimeoutMs, keepAlive });
    this.#timeoutMs = timeoutMs;
    this.#slowTimeoutMs = slowTimeoutMs;
    this.#createTimeoutMs = createTimeoutMs;
    this.#commandSlackMs = commandSlackMs;
    this.#monotonic = monotonic;
  }

  async probe(endpoint: AgentEndpoint, { signal }: AgentCallOptions = {}): Promise<AgentState> {
    const timeoutMs = Math.min(probeTimeoutMs, this.#timeoutMs);
    try {
      await this.#api.open(
        endpoint,
        { signal },
        {
          method: 'GET',
          path: '/ready',
          answer: wire.readySchema,
          timeoutMs,
          maxBodyBytes: maxProbeBytes,
        },
      );
      const { body } = await this.#api.open(
        endpoint,
        { signal },
        { method: 'GET', path: '/api/init', answer: wire.initStateSchema, timeoutMs },
      );
      if (body.state === 'dormant') return 'dormant';
      return body.state === 'ready' ? 'ready' : 'unreachable';
    } catch (error) {
      if (!(error instanceof AgentError) || error.code === 'aborted') throw error;
      // An agent that answers /ready and does not know /api/init has its keys from its environment.
      return error.code === 'not-found' ? 'ready' : 'unreachable';
    }
  }

  async initialise(
    endpoint: AgentEndpoint,
    init: AgentInit,
    options: AgentCallOptions = {},
  ): Promise<void> {
    try {
      await this.#api.open(endpoint, options, {
        method: 'POST',
        path: '/api/init',
        headers: { 'x-init-api-key': init.bootstrapKey },
        // This path rejects unknown fields, unlike all others.
        body: {
          session_api_keys: [init.sessionKey],
          secret_key: init.secretKey,
          conversations_path: init.conversationsPath,
          bash_events_dir: init.bashEventsDir,
          env: init.env,
          webhooks: (init.webhooks ?? []).map(webhookOf),
        },
        answer: wire.initStateSchema,
      });
    } catch (error) {
      // 400: ready already. 401: ready, and the bootstrap key is replaced, or the key is wrong.
      // 404: no deferred mode.
      const maybeDone =
        error instanceof AgentError &&
        ['refused', 'unauthorized', 'not-found'].includes(error.code);
      if (!maybeDone) throw error;
      await this.#verifySessionKey(
        { baseUrl: endpoint.baseUrl, sessionKey: init.sessionKey },
        options,
        error,
      );
    }
  }

  async execute(
    endpoint: AgentEndpoint,
    command: AgentCommand,
    options: AgentCallOptions = {},
  ): Promise<AgentCommandResult> {
    const startedMs = this.#monotonic();
    const { body } = await this.#api.call(endpoint, options, {
      method: 'POST',
      path: '/api/bash/execute_bash_command',
      body: { command: command.command, cwd: command.cwd, timeout: command.timeoutSeconds },
      answer: wire.commandOutputSchema,
      timeoutMs: command.timeoutSeconds * 1000 + this.#commandSlackMs,
      maxBodyBytes: maxCommandAnswerBytes,
    });
    return commandResultOf(body, {
      tookMs: this.#monotonic() - startedMs,
      timeoutSeconds: command.timeoutSeconds,
    });
  }

  async writeFile(
    endpoint: AgentEndpoint,
    path: string,
    file: string,
    options: AgentCallOptions = {},
  ): Promise<void> {
    const call = { method: 'POST', path: '/api/file/upload', query: { path }, file } as const;
    await this.#api.call(endpoint, options, { ...call, answer: wire.uploadSchema });
  }

  async hookConfig(
    endpoint: AgentEndpoint,
    projectDir: string,
    options: AgentCallOptions = {},
  ): Promise<Readonly<Record<string, unknown>> | undefined> {
    const { body } = await this.#api.call(endpoint, options, {
      method: 'POST',
      path: '/api/hooks',
      body: { project_dir: projectDir },
      answer: wire.hooksSchema,
    });
    return body.hook_config ?? undefined;
  }

  async createConversation(
    endpoint: AgentEndpoint,
    conversation: NewAgentConversation,
    options: AgentCallOptions = {},
  ): Promise<{ readonly created: boolean; readonly status: AgentConversation }> {
    const { message, id } = conversation;
    await this.#assertAble(endpoint, conversation, options);
    // An initial message always starts a run; a message with `run: false` needs a call of its own.
    const runs = message !== undefined && message.run !== false;
    const answer = await this.#api.call(endpoint, options, {
      method: 'POST',
      path: '/api/conversations',
      body: createBodyOf(conversation, { withMessage: runs }),
      answer: wire.conversationInfoSchema,
      maxBodyBytes: maxPageBytes,
      timeoutMs: this.#createTimeoutMs,
      secrets: secretsOf(conversation),
    });
    const created = answer.status === 201;
    const known = answer.body.tags?.[uidTag];
    if (
      !created &&
      typeof known === 'string' &&
      conversation.uid !== undefined &&
      known !== conversation.uid
    ) {
      throw new AgentError(
        'refused',
        'An earlier conversation of this id has been in this sandbox.',
        { status: answer.status },
      );
    }
    const status = conversationOf(answer.body, id);
    if (message === undefined || (created && runs)) return { created, status };
    // 200: the conversation existed before, perhaps by a call whose answer was lost or was a 500.
    // The agent ignores the body and its message.
    if (!created && (await this.#hasMessage(endpoint, status, options))) return { created, status };
    if (!created && mayBeUnderWay(answer))
      throw new AgentError('busy', 'The conversation is just being created.', { status: 200 });
    await this.sendMessage(endpoint, id, message, options);
    return { created, status: (await this.conversation(endpoint, id, options)) ?? status };
  }

  async conversation(
    endpoint: AgentEndpoint,
    id: string,
    options: AgentCallOptions = {},
  ): Promise<AgentConversation | undefined> {
    try {
      const { body } = await this.#api.call(endpoint, options, {
        method: 'GET',
        path: pathOf(id),
        answer: wire.conversationInfoSchema,
        maxBodyBytes: maxConversationBytes,
      });
      return conversationOf(body, id);
    } catch (error) {
      if (error instanceof AgentError && error.code === 'not-found') return undefined;
      throw error;
    }
  }

  async conversations(
    endpoint: AgentEndpoint,
    ids: readonly string[],
    options: AgentCallOptions = {},
  ) {
    const { body } = await this.#api.call(endpoint, options, {
      method: 'GET',
      path: `/api/conversations?${ids.map((id) => `ids=${hexOf(id)}`).join('&')}`,
      answer: wire.conversationListSchema,
      maxBodyBytes: maxConversationBytes,
    });
    return conversationsOf(body, ids);
  }

  async run(endpoint: AgentEndpoint, id: string, options: AgentCallOptions = {}): Promise<void> {
    try {
      await this.#api.call(endpoint, options, {
        method: 'POST',
        path: `${pathOf(id)}/run`,
        answer: wire.successSchema,
      });
    } catch (error) {
      // The conversation is running already.
      if (!(error instanceof AgentError && error.status === 409)) throw error;
    }
  }

  async pause(endpoint: AgentEndpoint, id: string, options: AgentCallOptions = {}): Promise<void> {
    const timeoutMs = this.#slowTimeoutMs;
    await this.#api.call(endpoint, options, {
      method: 'POST',
      path: `${pathOf(id)}/pause`,
      answer: wire.successSchema,
      timeoutMs,
    });
  }

  async interrupt(
    endpoint: AgentEndpoint,
    id: string,
    options: AgentCallOptions = {},
  ): Promise<void> {
    await this.#api.call(endpoint, options, {
      method: 'POST',
      path: `${pathOf(id)}/interrupt`,
      answer: wire.successSchema,
    });
  }

  async sendMessage(
    endpoint: AgentEndpoint,
    id: string,
    message: AgentMessage,
    options: AgentCallOptions = {},
  ): Promise<{ readonly started: boolean }> {
    const run = message.run !== false;
    try {
      await this.#api.call(endpoint, options, {
        method: 'POST',
        path: `${pathOf(id)}/events`,
        body: { role: message.role ?? 'user', content: contentOf(message.content), run },
        answer: wire.successSchema,
        timeoutMs: this.#slowTimeoutMs,
      });
      return { started: run };
    } catch (error) {
      // "Message saved, but …": too many runs. Sending it again would store it twice.
      if (run && error instanceof AgentError && error.status === 429) return { started: false };
      throw error;
    }
  }

  async userMessages(
    endpoint: AgentEndpoint,
    id: string,
    limit: number,
    options: AgentCallOptions = {},
  ): Promise<readonly AgentUserMessage[]> {
    const { body } = await this.#api.call(endpoint, options, {
      method: 'GET',
      path: `${pathOf(id)}/events/search`,
      query: {
        kind: 'MessageEvent',
        source: 'user',
        sort_order: 'TIMESTAMP_DESC',
        limit: Math.min(limit, 100),
      },
      answer: wire.messageEventsSchema,
      maxBodyBytes: maxPageBytes,
    });
    return body.items.map(userMessageOf);
  }

  async userMessagesAfter(
    endpoint: AgentEndpoint,
    id: string,
    after: Pick<AgentUserMessage, 'id' | 'timestamp'> | undefined,
    options: AgentCallOptions = {},
  ): Promise<readonly AgentUserMessage[]> {
    const items = await this.#api.pages(endpoint, options, {
      path: `${pathOf(id)}/events/search`,
      query: {
        kind: 'MessageEvent',
        source: 'user',
        sort_order: 'TIMESTAMP',
        limit: messagesPerPage,
        ...(after === undefined ? {} : { timestamp__gte: after.timestamp }),
      },
      answer: wire.messageEventsSchema,
    });
    // Unique ids, because an agent that restarts a list repeats messages.
    const messages = [...new Map(items.map((item) => [item.id, userMessageOf(item)])).values()];
    // The order of the agent decides, because its times may be equal.
    return messages.slice(messages.findIndex((message) => message.id === after?.id) + 1);
  }

  lastError(
    endpoint: AgentEndpoint,
    id: string,
    options: AgentCallOptions = {},
  ): Promise<AgentFailure | undefined> {
    return lastFailure(this.#api, endpoint, id, options);
  }

  async useLlm(
    endpoint: AgentEndpoint,
    id: string,
    llm: AgentLlm,
    options: AgentCallOptions = {},
  ): Promise<void> {
    await this.#api.call(endpoint, options, {
      method: 'POST',
      path: `${pathOf(id)}/switch_llm`,
      body: { llm: llmOf(llm) },
      answer: wire.successSchema,
      secrets: secretsOf({ llm }),
    });
  }

  async deleteConversation(
    endpoint: AgentEndpoint,
    id: string,
    options: AgentCallOptions = {},
  ): Promise<void> {
    const timeoutMs = this.#slowTimeoutMs;
    try {
      await this.#api.call(endpoint, options, {
        method: 'DELETE',
        path: pathOf(id),
        answer: wire.successSchema,
        timeoutMs,
      });
    } catch (error) {
      if (!(error instanceof AgentError && error.code === 'not-found')) throw error;
    }
  }

  async serverInfo(
    endpoint: AgentEndpoint,
    options: AgentCallOptions = {},
  ): Promise<AgentServerInfo> {
    const { body } = await this.#api.open(endpoint, options, {
      method: 'GET',
      path: '/server_info',
      answer: wire.serverInfoSchema,
    });
    return serverInfoOf(body);
  }

  runningConversations(
    endpoint: AgentEndpoint,
    options: AgentCallOptions = {},
  ): Promise<readonly string[]> {
    return this.#conversationsIn('running', endpoint, options);
  }

  waitingConversations(
    endpoint: AgentEndpoint,
    options: AgentCallOptions = {},
  ): Promise<readonly string[]> {
    return this.#conversationsIn('waiting_for_confirmation', endpoint, options);
  }

  async rejectPending(
    endpoint: AgentEndpoint,
    id: string,
    reason: string,
    options: AgentCallOptions = {},
  ): Promise<void> {
    const path = `${pathOf(id)}/events/respond_to_confirmation`;
    await this.#api.call(endpoint, options, {
      method: 'POST',
      path,
      body: { accept: false, reason },
      answer: wire.successSchema,
    });
  }

  async #conversationsIn(
    status: ExecutionStatus,
    endpoint: AgentEndpoint,
    options: AgentCallOptions,
  ): Promise<readonly string[]> {
    const items = await this.#api.pages(endpoint, options, {
      path: '/api/conversations/search',
      query: { status, limit: conversationsPerPage },
      answer: wire.conversationPageSchema,
    });
    // An agent that ignores the filter must not make idle conversations count as running.
    const ids = items
      .filter(({ execution_status }) => execution_status === status)
      .map(({ id }) => hexOf(id));
    return [...new Set(ids)];
  }

  close(): Promise<void> {
    return this.#api.close();
  }

  async #verifySessionKey(
    endpoint: AgentEndpoint,
    options: AgentCallOptions,
    cause: AgentError,
  ): Promise<void> {
    try {
      await this.#api.call(endpoint, options, {
        method: 'GET',
        path: '/api/conversations/count',
        answer: wire.countSchema,
      });
    } catch (error) {
      // The agent is still dormant: the rejected init call is the cause.
      throw error instanceof AgentError && error.code === 'dormant' ? cause : error;
    }
  }

  /**
   * Checks model and tools before the agent does: an agent server without a model takes a default
   * one without a key and retries for two minutes, and answers an unknown tool by a 500 that leaves
   * a conversation without a message.
   */
  async #assertAble(
    endpoint: AgentEndpoint,
    { llm, tools = [] }: NewAgentConversation,
    options: AgentCallOptions,
  ): Promise<void> {
    if (llm === undefined && (await this.serverInfo(endpoint, options)).needsModel) {
      throw new AgentError('unconfigured', 'The agent needs a model, and none is configured.');
    }
    if (tools.length === 0) return;
    const { body: known } = await this.#api.call(endpoint, options, {
      method: 'GET',
      path: '/api/tools/',
      answer: wire.toolNamesSchema,
    });
    const missing = tools.filter((name) => !known.includes(name));
    if (missing.length > 0)
      throw new AgentError('refused', `The agent has no tool ${missing.join(', ')}.`);
  }

  /** Reads the events, because the stored snapshot may lag behind them. */
  async #hasMessage(
    endpoint: AgentEndpoint,
    status: AgentConversation,
    options: AgentCallOptions,
  ): Promise<boolean> {
    return (
      status.lastUserMessageId !== undefined ||
      (await this.userMessages(endpoint, status.id, 1, options)).length > 0
    );
  }
}

/**
 * Both times are of the agent's clock. An unknown time counts as old, so that no start waits
 * forever.
 */
function mayBeUnderWay({ body, dateMs }: AgentAnswer<wire.ConversationInfo>): boolean {
  const createdMs = Date.parse(body.created_at ?? '');
  return dateMs !== undefined && !Number.isNaN(createdMs) && dateMs - createdMs < createSettleMs;
}
