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

/** Maximum bytes of one message of an agent; the child of a larger one ends. */
const maxMessageBytes = 8 * 1024 * 1024;
/** Characters of updates that wait for a reader, from which on the child's output waits as well. */
const maxBacklog = 1_000_000;
const defaultCallTimeoutMs = 60_000;
/** Time in which an agent ends a turn that was cancelled; after that its processes are killed. */
const cancelMs = 3_000;

export interface AcpChildOptions
  extends
    Omit<AgentProcessOptions, 'onEnd'>,
    Pick<QuestionsOptions, 'allowAlways' | 'onWithdrawn'> {
  /** `_meta` of the requests that open a session. Absent: none. */
  readonly meta?: Readonly<Record<string, unknown>> | undefined;
  /** Returns the texts to hide in everything that the agent says. */
  readonly needles: () => Needles;
  /** Gets the text of messages and thoughts before `next` returns it. */
  readonly live: Pick<LiveText, 'say' | 'output' | 'flush' | 'drop'>;
  /** Maximum time for each answer of the agent until its session may be used; 60 s by default. */
  readonly callTimeoutMs?: number;
}

/**
 * The process of an agent with one session, over its standard input and output. Its updates
 * wait in bounded memory until they are read; beyond the bound the output of the process waits as
 * well. Every failure ends the process, and the session continues in a new one.
 */
export class AcpChild {
  readonly #process: AgentProcess;
  readonly #options: AcpChildOptions;
  /** Ends the process when aborted before the session may be used. */
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

  /**
   * Starts the program and opens a connection. The process ends when the signal is aborted before
   * the session may be used.
   */
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

  /** Whether the process can take no more prompts. */
  get hasFailed(): boolean {
    return this.#failure !== undefined;
  }

  /** Whether a turn is under way, or has ended without a reader. */
  get isInTurn(): boolean {
    return this.#turn !== undefined;
  }

  /** Whether the agent itself has cancelled this question, as the last one. */
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
    // The log stores the id as it is.
    if (this.#masked(sessionId) !== sessionId)
      throw this.#fail('The id of the session of the agent holds a secret.');
    this.#session = sessionId;
    return sessionId;
  }

  /** Continues a session of an agent that repeats nothing. */
  async resumeSession(sessionId: string, mcpServers: readonly McpServer[]): Promise<undefined> {
    await this.#call((agent) =>
      agent.request('session/resume', { sessionId, ...this.#sessionOf(mcpServers) }),
    );
    this.#session = sessionId;
  }

  /** Continues a session of an agent that repeats its messages. Returns these. */
  async loadSession(sessionId: string, mcpServers: readonly McpServer[]): Promise<Replay> {
    const replay = new Replay();
    this.#session = sessionId;
    this.#replay = replay;
    try {
      await this.#call((agent) =>
        agent.request('session/load', { sessionId, ...this.#sessionOf(mcpServers) }),
      );
    } catch (error) {
      // The rest of a replay that has failed belongs to no turn.
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

  /**
   * The next part of the turn, in order. Throws AcpFailure when the agent has failed, after all
   * that it said before.
   */
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

  /**
   * Answers a question; an option that the agent has not offered cancels the question. `unknown`:
   * this process has not asked the question, or its turn was cancelled since.
   */
  answer(id: string, optionId: string | null): 'answered' | 'withdrawn' | 'unknown' {
    return this.#questions.answer(id, optionId);
  }

  /** Cancels the turn, and ends the process where the agent does not end the turn in time. */
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
      // The output may wait for a reader, and the end of the turn comes after it.
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
    // No event follows an interrupt.
    this.#recorder.take(true);
    this.#isCancelling = false;
    this.#turn = undefined;
    this.#stopped = undefined;
    this.#drain();
  }

  /** Kills the process and everything that it has started. */
  kill(): void {
    this.#process.kill();
    this.#fail('The agent was stopped.');
  }

  async ended(): Promise<void> {
    await this.#process.ended;
  }

  async #connect(): Promise<InitializeResponse> {
    // The client is loaded with the first agent, because most servers have none.
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

  /** The connection refuses updates that it does not know, and these are to be kept. */
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

  /** A call that a working agent answers at once. */
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
    // A message that still grows becomes one event, unless something follows it.
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
    // A message that grows is no event yet, and an agent writes hundreds of pieces of it.
    if (this.#recorder.hasEvents(false)) this.#change();
  }

  #permission(
    { toolCall, options, sessionId }: RequestPermissionRequest,
    signal: AbortSignal,
  ): Promise<RequestPermissionResponse> {
    // A question outside of a turn, or while the turn is cancelled, never reaches a person.
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

  /** Sends the text so far to clients, because an event follows. */
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
