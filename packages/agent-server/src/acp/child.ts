import { Writable } from 'node:stream';
import type {
  AnyMessage,
  ClientConnection,
  ContentBlock,
  InitializeResponse,
  NewSessionRequest,
  McpServer as ProtocolMcpServer,
  RequestPermissionRequest,
  RequestPermissionResponse,
} from '@agentclientprotocol/sdk';
import type { LiveText } from '../live-activity.ts';
import { maskText, type Needles } from '../mask.ts';
import type { McpServer } from '../mcp-servers.ts';
import { AgentProcess, type AgentProcessOptions } from './agent-process.ts';
import { toolCallSchema, UpdateRecorder } from './recorder.ts';
import { cancelled, Questions, type QuestionsOptions } from './questions.ts';
import { Replay } from './session-texts.ts';
import {
  AcpFailure,
  isResponse,
  messageOf,
  untilAborted,
  updateSchema,
  usageOf,
  type AcpUpdate,
  type TurnItem,
} from './turn.ts';

/** Maximum bytes of one message of an agent. A larger message ends the agent's process. */
const maxMessageBytes = 8 * 1024 * 1024;
/** Maximum characters of unread updates. At the limit, the server does not read more output. */
const maxBacklog = 1_000_000;
const defaultCallTimeoutMs = 60_000;
/** Maximum time for an agent to end a cancelled prompt; then the server kills its processes. */
const cancelMs = 3_000;

export interface AcpChildOptions
  extends
    Omit<AgentProcessOptions, 'onEnd'>,
    Pick<QuestionsOptions, 'allowAlways' | 'onWithdrawn'> {
  /** Field `_meta` of the ACP requests that open a session. */
  readonly meta?: Readonly<Record<string, unknown>> | undefined;
  /** Returns the secrets to mask in everything that the agent sends. */
  readonly needles: () => Needles;
  /** Receives the text of messages and thoughts at once, before `next` returns their events. */
  readonly live: Pick<LiveText, 'say' | 'output' | 'flush' | 'drop'>;
  /** Timeout of each call before the first prompt; default 60 s. */
  readonly callTimeoutMs?: number;
}

/**
 * Process of an ACP agent with one session, over standard input and output. The memory of unread
 * updates is bounded: at the limit, the server stops reading the agent's output. Every failure ends
 * the process, and a new process continues the session.
 */
export class AcpChild {
  readonly #process: AgentProcess;
  readonly #options: AcpChildOptions;
  readonly #setUp: AbortSignal;
  readonly #recorder: UpdateRecorder;
  readonly #questions: Questions;
  #connection: ClientConnection | undefined;
  #session: string | undefined;
  #replay: Replay | undefined;
  #isCancelling = false;
  #turn: Promise<void> | undefined;
  #stopped: Extract<TurnItem, { readonly kind: 'stopped' | 'refused' }> | undefined;
  #failure: AcpFailure | undefined;
  #changed = Promise.withResolvers<undefined>();
  #drained = Promise.withResolvers<undefined>();

  private constructor(options: AcpChildOptions, setUp: AbortSignal) {
    this.#options = options;
    this.#setUp = setUp;
    this.#recorder = new UpdateRecorder({
      needles: options.needles,
      onText: (said) => {
        if (!this.#isCancelling) options.live.say(said);
      },
      onOutput: (callId, output) => {
        if (!this.#isCancelling) options.live.output(callId, output);
      },
    });
    this.#questions = new Questions({
      ...options,
      masked: (text) => this.#masked(text),
      onChange: () => this.#change(),
    });
    this.#process = new AgentProcess({ ...options, onEnd: (message) => this.#fail(message) });
  }

  /** Starts the program and connects. An abort before the session is open ends the process. */
  static async start(
    options: AcpChildOptions,
    signal: AbortSignal,
  ): Promise<{ readonly child: AcpChild; readonly agent: InitializeResponse }> {
    const child = new AcpChild(options, signal);
    try {
      return { child, agent: await child.#connect() };
    } catch (error) {
      child.kill();
      throw error;
    }
  }

  get hasFailed(): boolean {
    return this.#failure !== undefined;
  }

  /** Whether a prompt is in progress, or has ended but `next` has not returned its end yet. */
  get isInTurn(): boolean {
    return this.#turn !== undefined;
  }

  hasWithdrawn(id: string): boolean {
    return this.#questions.hasWithdrawn(id);
  }

  authenticate(methodId: string): Promise<unknown> {
    return this.#call((agent) => agent.request('authenticate', { methodId }));
  }

  async newSession(mcpServers: readonly McpServer[]): Promise<string> {
    const { sessionId } = await this.#call((agent) =>
      agent.request('session/new', this.#sessionOf(mcpServers)),
    );
    // The log stores session ids without masking, so an id must contain no secret.
    if (this.#masked(sessionId) !== sessionId)
      throw this.#fail('The id of the session of the agent holds a secret.');
    this.#session = sessionId;
    return sessionId;
  }

  /** Continues a session without a replay of its messages. */
  async resumeSession(sessionId: string, mcpServers: readonly McpServer[]): Promise<undefined> {
    await this.#call((agent) =>
      agent.request('session/resume', { sessionId, ...this.#sessionOf(mcpServers) }),
    );
    this.#session = sessionId;
  }

  /** Continues a session, and returns the messages that the agent replays. */
  async loadSession(sessionId: string, mcpServers: readonly McpServer[]): Promise<Replay> {
    const replay = new Replay();
    this.#session = sessionId;
    this.#replay = replay;
    try {
      await this.#call((agent) =>
        agent.request('session/load', { sessionId, ...this.#sessionOf(mcpServers) }),
      );
    } catch (error) {
      // Without a session, `#update` ignores further updates of the failed replay.
      this.#session = undefined;
      throw error;
    } finally {
      this.#replay = undefined;
    }
    return replay;
  }

  #sessionOf(mcpServers: readonly McpServer[]): NewSessionRequest {
    const { cwd, meta } = this.#options;
    const servers: ProtocolMcpServer[] = [...mcpServers];
    return { cwd, mcpServers: servers, ...(meta === undefined ? {} : { _meta: { ...meta } }) };
  }

  setMode(modeId: string): Promise<unknown> {
    return this.#call((agent) =>
      agent.request('session/set_mode', { sessionId: this.#session ?? '', modeId }),
    );
  }

  prompt(blocks: readonly ContentBlock[]): void {
    const { agent } = this.#connected();
    const sessionId = this.#session ?? '';
    this.#stopped = undefined;
    let isAnswered = false;
    this.#turn = agent
      .request('session/prompt', { sessionId, prompt: [...blocks] })
      .then(
        (response) => {
          isAnswered = true;
          const { stopReason: reason } = response;
          this.#stopped = { kind: 'stopped', reason, usage: usageOf(response) };
        },
        (error: unknown) => {
          isAnswered = isResponse(error);
          if (this.#failure === undefined)
            this.#stopped = { kind: 'refused', detail: this.#withStderr(messageOf(error)) };
        },
      )
      .then(() => {
        this.#questions.endTurn(isAnswered);
        this.#flushText();
        this.#change();
      });
  }

  /** Returns the next TurnItem. Throws AcpFailure after the last item of a failed agent. */
  async next(signal: AbortSignal): Promise<TurnItem> {
    for (;;) {
      signal.throwIfAborted();
      const changed = this.#changed.promise;
      const item = this.#ready();
      if (item !== undefined) return item;
      if (this.#failure !== undefined) throw this.#failure;
      await untilAborted(changed, signal);
    }
  }

  answer(id: string, optionId: string | null): 'answered' | 'withdrawn' | 'unknown' {
    return this.#questions.answer(id, optionId);
  }

  /** Cancels the prompt. Kills the process if the agent does not end the prompt in time. */
  async cancel(): Promise<void> {
    const turn = this.#turn;
    if (turn !== undefined && this.#failure === undefined) {
      this.#isCancelling = true;
      this.#options.live.drop();
      this.#questions.cancelAll();
      const { agent } = this.#connected();
      await agent
        .notify('session/cancel', { sessionId: this.#session ?? '' })
        .catch(() => undefined);
      const late = Promise.withResolvers<undefined>();
      const timer = setTimeout(() => late.resolve(undefined), cancelMs);
      // The agent's response follows its remaining output, so this loop reads and drops the output.
      const reader = (async () => {
        for (;;) {
          const changed = this.#changed.promise;
          if (this.#stopped !== undefined || this.#failure !== undefined) return;
          this.#recorder.take(true);
          this.#drain();
          await changed;
        }
      })();
      await Promise.race([Promise.all([turn, reader]), late.promise]);
      clearTimeout(timer);
      if (this.#stopped === undefined) this.kill();
    }
    // The remaining events are dropped: in the log, none may follow the event of the interruption.
    this.#recorder.take(true);
    this.#isCancelling = false;
    this.#turn = undefined;
    this.#stopped = undefined;
    this.#drain();
  }

  kill(): void {
    this.#process.kill();
    this.#fail('The agent was stopped.');
  }

  async ended(): Promise<void> {
    await this.#process.ended;
  }

  async #connect(): Promise<InitializeResponse> {
    // The import is dynamic, because most servers run no ACP agent.
    const { client, ndJsonStream } = await import('@agentclientprotocol/sdk');
    const input = ReadableStream.from(this.#output()) as ReadableStream<Uint8Array>;
    const output = Writable.toWeb(this.#process.input) as WritableStream<Uint8Array>;
    const stream = ndJsonStream(output, input, { maxMessageBytes });
    const connection = client({ name: 'bridge' })
      .onRequest('session/request_permission', ({ params, signal }) =>
        this.#permission(params, signal),
      )
      .connect({
        writable: stream.writable,
        readable: ReadableStream.from(this.#withoutUpdates(stream.readable)),
      });
    this.#connection = connection;
    void connection.closed.then(
      () => this.#fail('The agent has closed its output.'),
      (error: unknown) => this.#fail(messageOf(error)),
    );
    const agent = await this.#call((context) =>
      context.request('initialize', {
        protocolVersion: 1,
        clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
        clientInfo: { name: 'conversation-operator', version: '1' },
      }),
    );
    if (agent.protocolVersion !== 1)
      throw this.#fail(`The agent speaks version ${agent.protocolVersion} of the protocol, not 1.`);
    return agent;
  }

  async *#output(): AsyncGenerator<Buffer> {
    for await (const chunk of this.#process.output) {
      while (this.#recorder.size > maxBacklog && this.#failure === undefined)
        await this.#drained.promise;
      yield chunk;
    }
  }

  /** Removes and records all updates, because the connection would drop updates of unknown type. */
  async *#withoutUpdates(messages: AsyncIterable<AnyMessage>): AsyncGenerator<AnyMessage> {
    for await (const message of messages) {
      const update = updateSchema.safeParse(message).data;
      if (update === undefined) yield message;
      else this.#update(update.params);
    }
  }

  #connected(): ClientConnection {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#connection === undefined) throw new Error('the child is connected by `start`');
    return this.#connection;
  }

  /** Calls the agent. Without an answer in `callTimeoutMs`, the process ends with an AcpFailure. */
  async #call<T>(call: (agent: ClientConnection['agent']) => Promise<T>): Promise<T> {
    const signal = this.#setUp;
    const { callTimeoutMs = defaultCallTimeoutMs } = this.#options;
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => late.reject(this.#fail(`The agent has not answered within ${callTimeoutMs / 1000} s.`)),
      callTimeoutMs,
    );
    const abort = () => late.reject(this.#fail('The start of the agent was interrupted.'));
    signal.addEventListener('abort', abort, { once: true });
    try {
      signal.throwIfAborted();
      const answer = call(this.#connected().agent);
      const failed = this.#process.ended.then(() =>
        Promise.reject(this.#failure ?? new Error('ended')),
      );
      return await Promise.race([answer, late.promise, failed]);
    } catch (error) {
      signal.throwIfAborted();
      throw this.#failure ?? new AcpFailure(this.#withStderr(messageOf(error)), { cause: error });
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
    }
  }

  #ready(): TurnItem | undefined {
    // An unfinished message becomes an event only when something else follows it.
    const isOver =
      this.#stopped !== undefined || this.#failure !== undefined || this.#questions.hasNext;
    if (isOver) this.#recorder.settle();
    if (this.#recorder.hasEvents(isOver)) {
      const events = this.#recorder.take(isOver);
      this.#drain();
      return { kind: 'events', events };
    }
    const request = this.#questions.next();
    if (request !== undefined) return { kind: 'permission', request };
    if (this.#stopped === undefined) return undefined;
    const stopped = this.#stopped;
    this.#turn = undefined;
    this.#stopped = undefined;
    return stopped;
  }

  #update({ sessionId, update }: AcpUpdate): void {
    if (sessionId !== this.#session) return;
    if (this.#replay !== undefined) {
      this.#replay.add(update);
      return;
    }
    if (this.#recorder.add(update) === 'event') this.#options.live.flush();
    // A message arrives in hundreds of chunks, and becomes an event only when it is complete.
    if (this.#recorder.hasEvents(false)) this.#change();
  }

  #permission(
    { toolCall, options, sessionId }: RequestPermissionRequest,
    signal: AbortSignal,
  ): Promise<RequestPermissionResponse> {
    // If no prompt is in progress, or the prompt is being cancelled, no person is asked.
    const isExpected = this.#turn !== undefined && !this.#isCancelling;
    if (sessionId !== this.#session || !isExpected || this.#questions.isFull)
      return Promise.resolve(cancelled);
    const parts = toolCallSchema.safeParse(toolCall).data;
    if (parts === undefined) return Promise.resolve(cancelled);
    const { call, ...asked } = this.#recorder.ask(parts);
    this.#flushText();
    const { tool_call_id, tool_kind } = call;
    const answer = this.#questions.ask({ tool_call_id, tool_kind, ...asked }, options, signal);
    this.#change();
    return answer;
  }

  #fail(message: string): AcpFailure {
    if (this.#failure === undefined) {
      this.#failure = new AcpFailure(this.#withStderr(message));
      this.#flushText();
      this.#questions.cancelAll();
      this.#process.release();
      this.#connection?.close();
    }
    this.#change();
    this.#drain();
    return this.#failure;
  }

  #withStderr(message: string): string {
    const printed = this.#process.printed(this.#options.needles());
    const said = this.#masked(message);
    return printed === '' ? said : `${said} It printed: ${printed}`;
  }

  #masked(text: string): string {
    return maskText(text, this.#options.needles());
  }

  /** Sends the pending text to clients, because an event follows it. */
  #flushText(): void {
    this.#recorder.settle();
    this.#options.live.flush();
  }

  #change(): void {
    this.#changed.resolve(undefined);
    this.#changed = Promise.withResolvers();
  }

  #drain(): void {
    this.#drained.resolve(undefined);
    this.#drained = Promise.withResolvers();
  }
}
