import type { KeepAlive } from '@conversation-operator/http/client/bounded-client';
import type {
  AgentAnswer,
  AgentCallOptions,
  AgentClient,
  AgentCommand,
  AgentConversation,
  AgentEndpoint,
  AgentInit,
  AgentLlm,
  AgentMessage,
  AgentQuestion,
  AgentSecret,
  AgentState,
  AgentUserMessage,
  NewAgentConversation,
} from './agent.ts';
import type { ExecutionStatus } from '../resources/conversation-status.ts';
import { plainText } from '../resources/plain-text.ts';
import { AgentError, isAgentError } from './errors.ts';
import { OpenHandsApi, hexOf, maxPageBytes, pathOf } from './openhands-api.ts';
import {
  create,
  commandResultOf,
  contentOf,
  conversationOf,
  conversationsOf,
  llmOf,
  lookupsOf,
  secretsOf,
  userMessageOf,
  webhookOf,
} from './openhands-mapping.ts';
import { lastFailure, lastResult } from './openhands-results.ts';
import { isRejected, openQuestion } from './openhands-questions.ts';
import * as wire from './wire.ts';

const defaults = {
  /** Deadline of quick calls, in milliseconds. */
  timeoutMs: 10_000,
  /** Deadline of calls that wait for a running tool call, in milliseconds. */
  slowTimeoutMs: 300_000,
  /** Deadline for creating a conversation, in milliseconds: a busy machine takes seconds. */
  createTimeoutMs: 30_000,
  /** Time that the agent gets beyond the time-out of a command, in milliseconds. */
  commandSlackMs: 5000,
  connectTimeoutMs: 3000,
  /** Monotonic clock in milliseconds. */
  monotonic: () => performance.now(),
};

export type OpenHandsClientOptions = Partial<typeof defaults> & {
  /** Maximum idle times of connections. Default: `defaultKeepAlive`. */
  readonly keepAlive?: KeepAlive;
};

const defaultReason = 'The user has rejected this action.';
const probeTimeoutMs = 3000;
/** Maximum bytes of a probe's answer. The operator probes a starting agent ten times a second. */
const maxProbeBytes = 64 * 1024;
const maxCommandAnswerBytes = 16 * 1024 * 1024;
/**
 * Maximum bytes of a conversation: 7000 model calls of 265 bytes. Many may be in memory at once.
 */
const maxConversationBytes = 2 * 1024 * 1024;
/** Maximum characters of the display name that an agent reports. */
const maxTitleLength = 64;
/** Maximum messages of a page, because each may be large. */
const messagesPerPage = 10;
const conversationsPerPage = 20;
const fromUser = { kind: 'MessageEvent', source: 'user' };

/**
 * Protocol of openhands-agent-server (1.58). `AgentClient` states the guarantees of each method.
 */
export class OpenHandsClient implements AgentClient {
  protected readonly api: OpenHandsApi;
  readonly #options: typeof defaults;

  constructor(options: OpenHandsClientOptions = {}) {
    this.#options = { ...defaults, ...options };
    this.api = new OpenHandsApi({ ...this.#options, keepAlive: options.keepAlive });
  }

  async probe(endpoint: AgentEndpoint, options?: AgentCallOptions): Promise<AgentState> {
    const call = {
      method: 'GET',
      timeoutMs: Math.min(probeTimeoutMs, this.#options.timeoutMs),
      maxBodyBytes: maxProbeBytes,
    } as const;
    const isReady = () =>
      this.api.open(endpoint, options, { ...call, path: '/ready', answer: wire.readySchema });
    try {
      const { body } = await this.api
        .open(endpoint, options, { ...call, path: '/api/init', answer: wire.initStateSchema })
        .catch(async (error: unknown) => {
          // An agent without this path has its keys from its environment.
          if (!isAgentError(error, 'not-found')) throw error;
          await isReady();
          return { body: { state: 'ready' } };
        });
      return body.state === 'dormant' || body.state === 'ready' ? body.state : 'unreachable';
    } catch (error) {
      if (!(error instanceof AgentError) || error.code === 'aborted') throw error;
      return 'unreachable';
    }
  }

  async initialise(endpoint: AgentEndpoint, init: AgentInit, options?: AgentCallOptions) {
    const { baseUrl } = endpoint;
    try {
      const { body } = await this.api.open(endpoint, options, {
        method: 'POST',
        path: '/api/init',
        // The agent refuses a second request. The client then checks the session key.
        repeatable: true,
        headers: { 'x-init-api-key': init.bootstrapKey },
        // Unlike all other paths, this one rejects unknown fields.
        body: {
          session_api_keys: [init.sessionKey],
          secret_key: init.secretKey,
          conversations_path: init.conversationsPath,
          bash_events_dir: init.bashEventsDir,
          env: init.env,
          webhooks: (init.webhooks ?? []).map(webhookOf),
        },
        answer: wire.initialisedSchema,
      });
      return { title: plainText(body.title ?? '', maxTitleLength).trim() || undefined };
    } catch (error) {
      // 400: the agent is ready already. 401: the agent is ready and has replaced the bootstrap
      // key, or the key is wrong. 404: the agent has its keys from its environment.
      if (!isAgentError(error, 'refused', 'unauthorized', 'not-found')) throw error;
      await this.#verifySessionKey({ baseUrl, sessionKey: init.sessionKey }, options, error);
      return undefined;
    }
  }

  async execute(endpoint: AgentEndpoint, command: AgentCommand, options?: AgentCallOptions) {
    const { timeoutSeconds } = command;
    const startedMs = this.#options.monotonic();
    const { body } = await this.api.call(endpoint, options, {
      method: 'POST',
      path: '/api/bash/execute_bash_command',
      body: { command: command.command, cwd: command.cwd, timeout: timeoutSeconds },
      answer: wire.commandOutputSchema,
      timeoutMs: timeoutSeconds * 1000 + this.#options.commandSlackMs,
      maxBodyBytes: maxCommandAnswerBytes,
    });
    return commandResultOf(body, { tookMs: this.#options.monotonic() - startedMs, timeoutSeconds });
  }

  async writeFile(endpoint: AgentEndpoint, path: string, file: string, options?: AgentCallOptions) {
    const call = { method: 'POST', path: '/api/file/upload', query: { path }, file } as const;
    await this.api.call(endpoint, options, { ...call, answer: wire.uploadSchema });
  }

  async hookConfig(endpoint: AgentEndpoint, projectDir: string, options?: AgentCallOptions) {
    const { body } = await this.api.call(endpoint, options, {
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
    options?: AgentCallOptions,
  ) {
    const timeoutMs = this.#options.createTimeoutMs;
    return create(this, this.api, { endpoint, conversation, timeoutMs, options });
  }

  async conversation(endpoint: AgentEndpoint, id: string, options?: AgentCallOptions) {
    const limit = { maxBodyBytes: maxConversationBytes };
    try {
      const { conversationInfoSchema } = wire;
      const info = await this.api.get(endpoint, options, pathOf(id), conversationInfoSchema, limit);
      return conversationOf(info, id);
    } catch (error) {
      if (isAgentError(error, 'not-found')) return undefined;
      throw error;
    }
  }

  async conversations(endpoint: AgentEndpoint, ids: readonly string[], options?: AgentCallOptions) {
    const path = `/api/conversations?${ids.map((id) => `ids=${hexOf(id)}`).join('&')}`;
    const limit = { maxBodyBytes: maxConversationBytes };
    const { conversationListSchema } = wire;
    const infos = await this.api.get(endpoint, options, path, conversationListSchema, limit);
    return conversationsOf(infos, ids);
  }

  run(endpoint: AgentEndpoint, id: string, options?: AgentCallOptions) {
    return this.api.run(endpoint, options, `${pathOf(id)}/run`);
  }

  /** Only the ACP bridge takes a run for over whose model was refused. */
  continueRun(endpoint: AgentEndpoint, id: string, options?: AgentCallOptions) {
    return this.run(endpoint, id, options);
  }

  async interrupt(endpoint: AgentEndpoint, id: string, options?: AgentCallOptions) {
    await this.api.post(endpoint, options, `${pathOf(id)}/interrupt`);
  }

  async sendMessage(
    endpoint: AgentEndpoint,
    id: string,
    { role = 'user', content, run = true }: AgentMessage,
    options?: AgentCallOptions,
  ) {
    try {
      await this.api.post(endpoint, options, `${pathOf(id)}/events`, {
        body: { role, content: contentOf(content), run },
        timeoutMs: this.#options.slowTimeoutMs,
      });
      return { started: run };
    } catch (error) {
      // 429: the agent has stored the message. A second request would store the message twice.
      if (run && error instanceof AgentError && error.status === 429) return { started: false };
      throw error;
    }
  }

  async userMessages(
    endpoint: AgentEndpoint,
    id: string,
    limit: number,
    options?: AgentCallOptions,
  ) {
    const query = { ...fromUser, sort_order: 'TIMESTAMP_DESC', limit: Math.min(limit, 100) };
    const path = `${pathOf(id)}/events/search`;
    const details = { query, maxBodyBytes: maxPageBytes };
    const page = await this.api.get(endpoint, options, path, wire.messageEventsSchema, details);
    return page.items.map(userMessageOf);
  }

  async userMessagesAfter(
    endpoint: AgentEndpoint,
    id: string,
    after: Pick<AgentUserMessage, 'id' | 'timestamp'> | undefined,
    options?: AgentCallOptions,
  ) {
    const path = `${pathOf(id)}/events/search`;
    const items = await this.api.pages(endpoint, options, path, wire.messageEventsSchema, {
      ...fromUser,
      sort_order: 'TIMESTAMP',
      limit: messagesPerPage,
      ...(after === undefined ? {} : { timestamp__gte: after.timestamp }),
    });
    // An agent that restarts its list repeats messages.
    const messages = [...new Map(items.map((item) => [item.id, userMessageOf(item)])).values()];
    // Messages may have the same time, so the order of the agent decides which ones are later.
    return messages.slice(messages.findIndex((message) => message.id === after?.id) + 1);
  }

  async lastError(endpoint: AgentEndpoint, id: string, options?: AgentCallOptions) {
    return lastFailure(this.api, endpoint, id, options);
  }

  async lastResult(
    endpoint: AgentEndpoint,
    conversation: AgentConversation,
    options?: AgentCallOptions,
  ) {
    return lastResult(this.api, endpoint, conversation, options);
  }

  async setSecrets(
    endpoint: AgentEndpoint,
    id: string,
    secrets: readonly AgentSecret[],
    options?: AgentCallOptions,
  ) {
    const details = { body: { secrets: lookupsOf(secrets) }, secrets: secretsOf({ secrets }) };
    await this.api.post(endpoint, options, `${pathOf(id)}/secrets`, details);
  }

  async useLlm(endpoint: AgentEndpoint, id: string, llm: AgentLlm, options?: AgentCallOptions) {
    const details = { body: { llm: llmOf(llm) }, secrets: secretsOf({ llm }) };
    await this.api.post(endpoint, options, `${pathOf(id)}/switch_llm`, details);
  }

  async serverInfo(endpoint: AgentEndpoint, options?: AgentCallOptions) {
    const answer = wire.serverInfoSchema;
    const call = { method: 'GET', path: '/server_info', answer } as const;
    const { title } = (await this.api.open(endpoint, options, call)).body;
    // The reference agent, which works without a model, has another title.
    return { needsModel: title === 'OpenHands Agent Server' };
  }

  async runningConversations(endpoint: AgentEndpoint, options?: AgentCallOptions) {
    return idsOf(await this.#conversationsIn('running', endpoint, options));
  }

  async question(
    endpoint: AgentEndpoint,
    id: string,
    options?: AgentCallOptions,
  ): Promise<AgentQuestion | undefined> {
    return openQuestion(this.api, endpoint, id, options);
  }

  async answer(
    endpoint: AgentEndpoint,
    id: string,
    { questionId, accept, reason = defaultReason }: AgentAnswer,
    options?: AgentCallOptions,
  ): Promise<void> {
    // The protocol has no id of a question: the agent applies an answer to all pending actions.
    const asked = await this.question(endpoint, id, options);
    if (asked?.id !== questionId) throw new AgentError('refused', 'The agent asks no longer.');
    await this.api.respond(endpoint, options, id, accept ? { accept } : { accept, reason });
  }

  async hadApproval(
    endpoint: AgentEndpoint,
    id: string,
    { questionId }: AgentAnswer,
    options?: AgentCallOptions,
  ): Promise<boolean> {
    return !(await isRejected(this.api, endpoint, id, questionId, options));
  }

  async losableQuestions(endpoint: AgentEndpoint, options?: AgentCallOptions) {
    const waiting = await this.#conversationsIn('waiting_for_confirmation', endpoint, options);
    return idsOf(waiting.filter(({ keeps_questions: isKept }) => isKept !== true));
  }

  async rejectPending(
    endpoint: AgentEndpoint,
    id: string,
    reason: string,
    options?: AgentCallOptions,
  ) {
    await this.api.respond(endpoint, options, id, { accept: false, reason });
  }

  close(): Promise<void> {
    return this.api.close();
  }

  async #conversationsIn(
    status: ExecutionStatus,
    endpoint: AgentEndpoint,
    options?: AgentCallOptions,
  ) {
    const path = '/api/conversations/search';
    const query = { status, limit: conversationsPerPage };
    const answer = wire.conversationPageSchema;
    const items = await this.api.pages(endpoint, options, path, answer, query);
    // An agent may ignore the filter, and idle conversations must not count as running.
    return items.filter(({ execution_status }) => execution_status === status);
  }

  async #verifySessionKey(
    endpoint: AgentEndpoint,
    options: AgentCallOptions | undefined,
    cause: AgentError,
  ): Promise<void> {
    try {
      await this.api.get(endpoint, options, '/api/conversations/count', wire.countSchema);
    } catch (error) {
      // The agent is still dormant, so the error of the `initialise` call is the one to report.
      throw isAgentError(error, 'dormant') ? cause : error;
    }
  }
}

const idsOf = (items: readonly { readonly id: string }[]): readonly string[] => [
  ...new Set(items.map(({ id }) => hexOf(id))),
];
