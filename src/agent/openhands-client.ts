import type {
  AgentCallOptions,
  AgentClient,
  AgentCommand,
  AgentCommandResult,
  AgentConversation,
  AgentEndpoint,
  AgentFailure,
  AgentInit,
  AgentMessage,
  AgentServerInfo,
  AgentState,
  AgentUserMessage,
  NewAgentConversation,
} from './agent.ts';
import { dashedUuid, parseUuid } from '../resources/ids.ts';
import { AgentError } from './errors.ts';
import { AgentHttp, type AgentAnswer, type AgentRequest } from './http.ts';
import {
  commandResultOf,
  contentOf,
  conversationOf,
  createBodyOf,
  maxDetailCharacters,
  uidTag,
  userMessageOf,
} from './openhands-mapping.ts';
import * as wire from './wire.ts';

export interface OpenHandsClientOptions {
  /** Milliseconds that the quick calls may take, 10 000 by default. */
  readonly timeoutMs?: number;
  /** Milliseconds that calls may take which wait for a running tool call, 300 000 by default. */
  readonly slowTimeoutMs?: number;
  /** Milliseconds to connect, 3000 by default. */
  readonly connectTimeoutMs?: number;
  /** Milliseconds on any clock that does not jump. */
  readonly monotonic?: () => number;
}

/** A conversation younger than this may still get its first message from the call that created it. */
const createSettleMs = 3000;
const probeTimeoutMs = 3000;
/** The first conversation of a fresh agent takes seconds on a busy machine. */
const createTimeoutMs = 30_000;
const maxCommandAnswerBytes = 16 * 1024 * 1024;
/** A hundred conversations of a rich agent do not fit into 1 MiB. */
const maxPageBytes = 16 * 1024 * 1024;
const maxPages = 20;
/** Of messages, each of which may be large. */
const messagesPerPage = 10;

type Call<T> = Omit<AgentRequest<T>, 'timeoutMs' | 'signal'> & { readonly timeoutMs?: number };

/** Speaks the protocol of openhands-agent-server (1.58), and of the reference agent. */
export class OpenHandsClient implements AgentClient {
  readonly #http: AgentHttp;
  readonly #timeoutMs: number;
  readonly #slowTimeoutMs: number;
  readonly #monotonic: () => number;

  constructor({
    timeoutMs = 10_000,
    slowTimeoutMs = 300_000,
    connectTimeoutMs = 3000,
    monotonic = () => performance.now(),
  }: OpenHandsClientOptions = {}) {
    this.#http = new AgentHttp({ connectTimeoutMs });
    this.#timeoutMs = timeoutMs;
    this.#slowTimeoutMs = slowTimeoutMs;
    this.#monotonic = monotonic;
  }

  async probe({ baseUrl }: AgentEndpoint, { signal }: AgentCallOptions = {}): Promise<AgentState> {
    const timeoutMs = Math.min(probeTimeoutMs, this.#timeoutMs);
    try {
      await this.#http.call(baseUrl, { method: 'GET', path: '/ready', answer: wire.readySchema, timeoutMs, signal });
      const { body } = await this.#http.call(baseUrl, {
        method: 'GET',
        path: '/api/init',
        answer: wire.initStateSchema,
        timeoutMs,
        signal,
      });
      if (body.state === 'dormant') return 'dormant';
      return body.state === 'ready' ? 'ready' : 'unreachable';
    } catch (error) {
      if (!(error instanceof AgentError) || error.code === 'aborted') throw error;
      // /ready has answered, and /api/init is unknown: an agent with its keys in its environment.
      return error.code === 'not-found' ? 'ready' : 'unreachable';
    }
  }

  async initialise(endpoint: AgentEndpoint, init: AgentInit, options: AgentCallOptions = {}): Promise<void> {
    try {
      await this.#http.call(endpoint.baseUrl, {
        method: 'POST',
        path: '/api/init',
        headers: { 'x-init-api-key': init.bootstrapKey },
        // A field that the agent does not know is refused here, unlike everywhere else.
        body: {
          session_api_keys: [init.sessionKey],
          secret_key: init.secretKey,
          conversations_path: init.conversationsPath,
          bash_events_dir: init.bashEventsDir,
          env: init.env,
          webhooks: (init.webhooks ?? []).map(({ baseUrl, headers }) => ({ base_url: baseUrl, headers: headers ?? {} })),
        },
        answer: wire.initStateSchema,
        timeoutMs: this.#timeoutMs,
        signal: options.signal,
      });
    } catch (error) {
      // 400: ready already. 401: ready, and the bootstrap key is replaced, or the key is wrong. 404: no deferred mode.
      const maybeDone = error instanceof AgentError && ['refused', 'unauthorized', 'not-found'].includes(error.code);
      if (!maybeDone) throw error;
      await this.#verifySessionKey({ baseUrl: endpoint.baseUrl, sessionKey: init.sessionKey }, options, error);
    }
  }

  async execute(endpoint: AgentEndpoint, command: AgentCommand, options: AgentCallOptions = {}): Promise<AgentCommandResult> {
    const startedMs = this.#monotonic();
    const { body } = await this.#call(endpoint, options, {
      method: 'POST',
      path: '/api/bash/execute_bash_command',
      body: { command: command.command, cwd: command.cwd, timeout: command.timeoutSeconds },
      answer: wire.commandOutputSchema,
      timeoutMs: (command.timeoutSeconds + 5) * 1000,
      maxBodyBytes: maxCommandAnswerBytes,
    });
    return commandResultOf(body, { tookMs: this.#monotonic() - startedMs, timeoutSeconds: command.timeoutSeconds });
  }

  async writeFile(endpoint: AgentEndpoint, path: string, file: string, options: AgentCallOptions = {}): Promise<void> {
    const call = { method: 'POST', path: '/api/file/upload', query: { path }, file } as const;
    await this.#call(endpoint, options, { ...call, answer: wire.uploadSchema });
  }

  async hookConfig(
    endpoint: AgentEndpoint,
    projectDir: string,
    options: AgentCallOptions = {},
  ): Promise<Readonly<Record<string, unknown>> | undefined> {
    const { body } = await this.#call(endpoint, options, {
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
    // An initial message always starts the run; one that must not goes its own way.
    const runs = message !== undefined && message.run !== false;
    const answer = await this.#call(endpoint, options, {
      method: 'POST',
      path: '/api/conversations',
      body: createBodyOf(conversation, { withMessage: runs }),
      answer: wire.conversationInfoSchema,
      timeoutMs: Math.max(createTimeoutMs, this.#timeoutMs),
    });
    const created = answer.status === 201;
    const known = answer.body.tags?.[uidTag];
    if (!created && typeof known === 'string' && conversation.uid !== undefined && known !== conversation.uid) {
      throw new AgentError('refused', 'An earlier conversation of this id has been in this sandbox.', { status: answer.status });
    }
    const status = conversationOf(answer.body);
    if (message === undefined || (created && runs)) return { created, status };
    // 200: there before, perhaps from a call whose answer was lost or was a 500. It ignores the body, the message included.
    if (!created && (await this.#hasMessage(endpoint, status, options))) return { created, status };
    if (!created && mayBeUnderWay(answer)) throw new AgentError('busy', 'The conversation is just being created.', { status: 200 });
    await this.sendMessage(endpoint, id, message, options);
    return { created, status: (await this.conversation(endpoint, id, options)) ?? status };
  }

  async conversation(endpoint: AgentEndpoint, id: string, options: AgentCallOptions = {}): Promise<AgentConversation | undefined> {
    try {
      const { body } = await this.#call(endpoint, options, { method: 'GET', path: pathOf(id), answer: wire.conversationInfoSchema });
      return conversationOf(body);
    } catch (error) {
      if (error instanceof AgentError && error.code === 'not-found') return undefined;
      throw error;
    }
  }

  async run(endpoint: AgentEndpoint, id: string, options: AgentCallOptions = {}): Promise<void> {
    try {
      await this.#call(endpoint, options, { method: 'POST', path: `${pathOf(id)}/run`, answer: wire.successSchema });
    } catch (error) {
      // It runs already.
      if (!(error instanceof AgentError && error.status === 409)) throw error;
    }
  }

  async pause(endpoint: AgentEndpoint, id: string, options: AgentCallOptions = {}): Promise<void> {
    const timeoutMs = this.#slowTimeoutMs;
    await this.#call(endpoint, options, { method: 'POST', path: `${pathOf(id)}/pause`, answer: wire.successSchema, timeoutMs });
  }

  async interrupt(endpoint: AgentEndpoint, id: string, options: AgentCallOptions = {}): Promise<void> {
    await this.#call(endpoint, options, { method: 'POST', path: `${pathOf(id)}/interrupt`, answer: wire.successSchema });
  }

  async sendMessage(
    endpoint: AgentEndpoint,
    id: string,
    message: AgentMessage,
    options: AgentCallOptions = {},
  ): Promise<{ readonly started: boolean }> {
    const run = message.run !== false;
    try {
      await this.#call(endpoint, options, {
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
    const { body } = await this.#call(endpoint, options, {
      method: 'GET',
      path: `${pathOf(id)}/events/search`,
      query: { kind: 'MessageEvent', source: 'user', sort_order: 'TIMESTAMP_DESC', limit: Math.min(limit, 100) },
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
    const messages: AgentUserMessage[] = [];
    let pageId: string | undefined;
    for (let page = 0; page < maxPages; page += 1) {
      const { body } = await this.#call(endpoint, options, {
        method: 'GET',
        path: `${pathOf(id)}/events/search`,
        query: {
          kind: 'MessageEvent',
          source: 'user',
          sort_order: 'TIMESTAMP',
          limit: messagesPerPage,
          ...(after === undefined ? {} : { timestamp__gte: after.timestamp }),
          ...(pageId === undefined ? {} : { page_id: pageId }),
        },
        answer: wire.messageEventsSchema,
        maxBodyBytes: maxPageBytes,
      });
      messages.push(...body.items.map(userMessageOf));
      pageId = body.next_page_id ?? undefined;
      if (pageId === undefined) break;
    }
    // The agent's times may be equal; the order is its own.
    return messages.slice(messages.findIndex((message) => message.id === after?.id) + 1);
  }

  async lastError(endpoint: AgentEndpoint, id: string, options: AgentCallOptions = {}): Promise<AgentFailure | undefined> {
    const { body } = await this.#call(endpoint, options, {
      method: 'GET',
      path: `${pathOf(id)}/events/search`,
      query: { kind: 'ConversationErrorEvent', sort_order: 'TIMESTAMP_DESC', limit: 1 },
      answer: wire.errorEventsSchema,
    });
    const [event] = body.items;
    // An error older than the last start of a run belongs to an earlier run.
    if (event === undefined || (await this.#hasStartedSince(endpoint, id, event.timestamp, options))) return undefined;
    return { code: event.code ?? 'Unknown', detail: (event.detail ?? '').slice(0, maxDetailCharacters) };
  }

  async deleteConversation(endpoint: AgentEndpoint, id: string, options: AgentCallOptions = {}): Promise<void> {
    const timeoutMs = this.#slowTimeoutMs;
    try {
      await this.#call(endpoint, options, { method: 'DELETE', path: pathOf(id), answer: wire.successSchema, timeoutMs });
    } catch (error) {
      if (!(error instanceof AgentError && error.code === 'not-found')) throw error;
    }
  }

  async serverInfo({ baseUrl }: AgentEndpoint, { signal }: AgentCallOptions = {}): Promise<AgentServerInfo> {
    const { body } = await this.#http.call(baseUrl, {
      method: 'GET',
      path: '/server_info',
      answer: wire.serverInfoSchema,
      timeoutMs: this.#timeoutMs,
      signal,
    });
    return { idleSeconds: body.idle_time, uptimeSeconds: body.uptime, version: body.version };
  }

  async runningConversations(endpoint: AgentEndpoint, options: AgentCallOptions = {}): Promise<readonly string[]> {
    const ids: string[] = [];
    let pageId: string | undefined;
    for (let page = 0; page < maxPages; page += 1) {
      const { body } = await this.#call(endpoint, options, {
        method: 'GET',
        path: '/api/conversations/search',
        query: { status: 'running', limit: 100, ...(pageId === undefined ? {} : { page_id: pageId }) },
        answer: wire.conversationPageSchema,
        maxBodyBytes: maxPageBytes,
      });
      // An agent that ignores the filter must not make idle conversations look busy.
      ids.push(
        ...body.items.filter((item) => item.execution_status === 'running').map((item) => item.id.replaceAll('-', '').toLowerCase()),
      );
      pageId = body.next_page_id ?? undefined;
      if (pageId === undefined) break;
    }
    return ids;
  }

  close(): Promise<void> {
    return this.#http.close();
  }

  #call<T>({ baseUrl, sessionKey }: AgentEndpoint, { signal }: AgentCallOptions, call: Call<T>): Promise<AgentAnswer<T>> {
    return this.#http.call(baseUrl, {
      timeoutMs: this.#timeoutMs,
      ...call,
      headers: { 'x-session-api-key': sessionKey },
      signal,
    });
  }

  async #verifySessionKey(endpoint: AgentEndpoint, options: AgentCallOptions, cause: AgentError): Promise<void> {
    try {
      await this.#call(endpoint, options, { method: 'GET', path: '/api/conversations/count', answer: wire.countSchema });
    } catch (error) {
      // Still dormant: the refusal of the init call is what went wrong.
      throw error instanceof AgentError && error.code === 'dormant' ? cause : error;
    }
  }

  /** The stored snapshot may lag behind the events. */
  async #hasMessage(endpoint: AgentEndpoint, status: AgentConversation, options: AgentCallOptions): Promise<boolean> {
    return status.lastUserMessageId !== undefined || (await this.userMessages(endpoint, status.id, 1, options)).length > 0;
  }

  async #hasStartedSince(endpoint: AgentEndpoint, id: string, timestamp: string, options: AgentCallOptions): Promise<boolean> {
    let pageId: string | undefined;
    for (let page = 0; page < maxPages; page += 1) {
      const { body } = await this.#call(endpoint, options, {
        method: 'GET',
        path: `${pathOf(id)}/events/search`,
        query: {
          kind: 'ConversationStateUpdateEvent',
          timestamp__gte: timestamp,
          limit: 100,
          ...(pageId === undefined ? {} : { page_id: pageId }),
        },
        answer: wire.stateUpdatesSchema,
        maxBodyBytes: maxPageBytes,
      });
      if (body.items.some(({ key, value }) => key === 'execution_status' && value === 'running')) return true;
      pageId = body.next_page_id ?? undefined;
      if (pageId === undefined) return false;
    }
    return false;
  }
}

/** Throws for what is no UUID: ids come from names that people choose, and a path must stay the one meant. */
function pathOf(id: string): string {
  const hex = parseUuid(id);
  if (hex === undefined) throw new AgentError('refused', 'The conversation id is not a UUID.');
  return `/api/conversations/${dashedUuid(hex)}`;
}

/** By the agent's clock, both. Unknown times count as old, so that nothing waits for ever. */
function mayBeUnderWay({ body, dateMs }: AgentAnswer<wire.ConversationInfo>): boolean {
  const createdMs = Date.parse(body.created_at ?? '');
  return dateMs !== undefined && !Number.isNaN(createdMs) && dateMs - createdMs < createSettleMs;
}
