import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { Writable, type Readable } from 'node:stream';
import type {
  AnyMessage,
  ClientConnection,
  ContentBlock,
  InitializeResponse,
  NewSessionRequest,
  McpServer as ProtocolMcpServer,
  PromptResponse,
  RequestPermissionRequest,
  RequestPermissionResponse,
  StopReason,
} from '@agentclientprotocol/sdk';
import * as z from 'zod/mini';
import { isAllowing } from '../approvals.ts';
import { BoundedOutput, kill, type ProcessGuard } from '../commands.ts';
import type { ApprovalRequest, EventBody } from '../events.ts';
import type { LiveText } from '../live-activity.ts';
import { maskText, type Needles } from '../mask.ts';
import type { McpServer } from '../mcp-servers.ts';
import { bounded } from './tool-calls.ts';
import { toolCallSchema, UpdateRecorder } from './recorder.ts';
import { Replay } from './session-texts.ts';

/** Maximum bytes of one message of an agent; the child of a larger one ends. */
const maxMessageBytes = 8 * 1024 * 1024;
/** Characters of updates that wait for a reader, from which on the child's output waits as well. */
const maxBacklog = 1_000_000;
const maxStderrBytes = 4_096;
/** Default of `callTimeoutMs`. */
const defaultCallTimeoutMs = 60_000;
/** Time in which an agent ends a turn that was cancelled; after that its processes are killed. */
const cancelMs = 3_000;
/** Maximum questions that wait for their turn or their answer; further ones are cancelled. */
const maxPermissions = 100;
const maxOptions = 20;
/** Code of the reason for which the agent itself has cancelled a request. */
const requestCancelled = -32_800;
/** Maximum characters of the id of an option. */
const maxOptionCharacters = 200;
/** Maximum characters of the name of an option, which may have a command. */
const maxNameCharacters = 400;

/** An agent that does not do what the protocol says; `detail` ends with what it printed. */
export class AcpFailure extends Error {
  override readonly name = 'AcpFailure';
}

export interface AcpChildOptions {
  readonly command: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly guard: ProcessGuard;
  /** `_meta` of the requests that open a session. Absent: none. */
  readonly meta?: Readonly<Record<string, unknown>> | undefined;
  /** Whether a person may choose an option that holds for later calls as well. */
  readonly allowAlways: boolean;
  /** Called when the agent itself cancels a question that `next` has returned. */
  readonly onWithdrawn: (id: string) => void;
  /** Returns the texts to hide in everything that the agent says. */
  readonly needles: () => Needles;
  /** Gets the text of messages and thoughts before `next` returns it. */
  readonly live: Pick<LiveText, 'say' | 'output' | 'flush' | 'drop'>;
  /** Maximum time for each answer of the agent until its session may be used; 60 s by default. */
  readonly callTimeoutMs?: number;
}

export interface AcpUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export type TurnItem =
  | { readonly kind: 'events'; readonly events: readonly EventBody[] }
  | { readonly kind: 'permission'; readonly request: ApprovalRequest }
  | { readonly kind: 'stopped'; readonly reason: StopReason; readonly usage: AcpUsage | undefined }
  /** The agent has answered the prompt with an error. */
  | { readonly kind: 'refused'; readonly detail: string };

interface OpenPermission {
  readonly request: ApprovalRequest;
  readonly answer: (response: RequestPermissionResponse) => void;
  isShown: boolean;
}

const updateSchema = z.object({
  method: z.literal('session/update'),
  params: z.object({
    sessionId: z.string(),
    update: z.looseObject({ sessionUpdate: z.string() }),
  }),
});

const cancelled: RequestPermissionResponse = { outcome: { outcome: 'cancelled' } };

/**
 * The process of an agent with one session, over its standard input and output. Its updates
 * wait in bounded memory until they are read; beyond the bound the output of the process waits as
 * well. Every failure ends the process, and the session continues in a new one.
 */
export class AcpChild {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #options: AcpChildOptions;
  /** Ends the process when aborted before the session may be used. */
  readonly #setUp: AbortSignal;
  readonly #stderr = new BoundedOutput(maxStderrBytes);
  readonly #recorder: UpdateRecorder;
  readonly #permissions: OpenPermission[] = [];
  #connection: ClientConnection | undefined;
  #session: string | undefined;
  #replay: Replay | undefined;
  #isCancelling = false;
  #lastWithdrawn: string | undefined;
  #turn: Promise<void> | undefined;
  #stopped: Extract<TurnItem, { readonly kind: 'stopped' | 'refused' }> | undefined;
  #failure: AcpFailure | undefined;
  #changed = Promise.withResolvers<undefined>();
  #drained = Promise.withResolvers<undefined>();
  readonly #ended: Promise<void>;

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
    const [program = '', ...args] = options.command;
    this.#child = spawn(program, args, {
      cwd: options.cwd,
      env: options.env,
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#child.stderr.on('data', (chunk: Buffer) => this.#stderr.push(chunk));
    this.#child.stdin.on('error', () => undefined);
    this.#child.stdout.on('error', () => undefined);
    if (this.#child.pid !== undefined) options.guard.add(this.#child.pid);
    this.#ended = new Promise((resolve) => {
      this.#child.once('error', (error) => {
        this.#fail(`The agent's program ${program} can't be started: ${error.message}`);
        resolve();
      });
      this.#child.once('exit', (code, signal) => {
        const end = signal === null ? `exit code ${String(code)}` : `signal ${signal}`;
        this.#fail(`The agent's process has ended with ${end}.`);
        resolve();
      });
    });
  }

  /**
   * Starts the program and opens a connection. The process ends when the signal is aborted before
   * the session may be used.
   */
  static async start(
    options: AcpChildOptions,
    signal: AbortSignal,
  ): Promise<{
    readonly child: AcpChild;
    readonly agent: InitializeResponse;
  }> {
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
    return id === this.#lastWithdrawn;
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

  /** Begins a turn, whose parts `next` returns. */
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
        // No tool of the turn waits for an answer any more. A question that a person has seen stays
        // where the connection has closed: the next process gets its answer.
        const ended = this.#permissions.filter(({ isShown }) => isAnswered || !isShown);
        for (const open of ended) {
          this.#permissions.splice(this.#permissions.indexOf(open), 1);
          this.#cancelQuestion(open);
        }
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
    const index = this.#permissions.findIndex(({ request }) => request.id === id);
    const [open] = index === -1 ? [] : this.#permissions.splice(index, 1);
    if (open === undefined) return this.hasWithdrawn(id) ? 'withdrawn' : 'unknown';
    const isOffered = open.request.options.some(({ option_id }) => option_id === optionId);
    open.answer(
      isOffered && optionId !== null ? { outcome: { outcome: 'selected', optionId } } : cancelled,
    );
    return 'answered';
  }

  /** Cancels the turn, and ends the process where the agent does not end the turn in time. */
  async cancel(): Promise<void> {
    const turn = this.#turn;
    if (turn !== undefined && this.#failure === undefined) {
      this.#isCancelling = true;
      this.#options.live.drop();
      for (const { answer } of this.#permissions.splice(0)) answer(cancelled);
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
    if (this.#child.pid !== undefined) kill(this.#child.pid, 'SIGKILL');
    this.#fail('The agent was stopped.');
  }

  /** Resolves when the process has ended. */
  async ended(): Promise<void> {
    await this.#ended;
  }

  async #connect(): Promise<InitializeResponse> {
    // The client is loaded with the first agent, because most servers have none.
    const { client, ndJsonStream } = await import('@agentclientprotocol/sdk');
    const input = ReadableStream.from(this.#output()) as ReadableStream<Uint8Array>;
    const output = Writable.toWeb(this.#child.stdin) as WritableStream<Uint8Array>;
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
    for await (const chunk of this.#child.stdout as AsyncIterable<Buffer>) {
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
      const failed = this.#ended.then(() => Promise.reject(this.#failure ?? new Error('ended')));
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
    const asked = this.#permissions.find(({ isShown }) => !isShown);
    // A message that still grows becomes one event, unless something follows it.
    const isOver =
      this.#stopped !== undefined || this.#failure !== undefined || asked !== undefined;
    if (isOver) this.#recorder.settle();
    if (this.#recorder.hasEvents(isOver)) {
      const events = this.#recorder.take(isOver);
      this.#drain();
      return { kind: 'events', events };
    }
    if (asked !== undefined) {
      asked.isShown = true;
      return { kind: 'permission', request: asked.request };
    }
    if (this.#stopped === undefined) return undefined;
    const stopped = this.#stopped;
    this.#turn = undefined;
    this.#stopped = undefined;
    return stopped;
  }

  #update({ sessionId, update }: z.output<typeof updateSchema>['params']): void {
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
    if (sessionId !== this.#session || !isExpected || this.#permissions.length >= maxPermissions)
      return Promise.resolve(cancelled);
    const parts = toolCallSchema.safeParse(toolCall).data;
    if (parts === undefined) return Promise.resolve(cancelled);
    const { call, ...asked } = this.#recorder.ask(parts);
    const { promise, resolve } = Promise.withResolvers<RequestPermissionResponse>();
    const open: OpenPermission = {
      request: {
        id: randomUUID(),
        tool_call_id: call.tool_call_id,
        tool_kind: call.tool_kind,
        ...asked,
        options: [...options]
          // The refusals come first into the bounded list, so that a person can always refuse.
          .sort((one, other) => Number(isAllowing(one.kind)) - Number(isAllowing(other.kind)))
          .filter(({ optionId }) => optionId.length <= maxOptionCharacters)
          // The answer needs the id as it is.
          .filter(({ optionId }) => this.#masked(optionId) === optionId)
          .filter(({ kind }) => this.#options.allowAlways || !kind.endsWith('_always'))
          .slice(0, maxOptions)
          .map(({ optionId, name, kind }) => ({
            option_id: optionId,
            name: String(bounded(this.#masked(name), maxNameCharacters)),
            kind,
          })),
      },
      answer: resolve,
      isShown: false,
    };
    this.#flushText();
    this.#permissions.push(open);
    signal.addEventListener('abort', () => this.#withdraw(open, signal.reason), { once: true });
    this.#change();
    return promise;
  }

  /**
   * Forgets a question that the agent itself has cancelled. The end of the connection cancels no
   * question: the next process gets the answer.
   */
  #withdraw(open: OpenPermission, reason: unknown): void {
    const isAgents =
      reason instanceof Error && 'code' in reason && reason.code === requestCancelled;
    const index = this.#permissions.indexOf(open);
    if (!isAgents || index === -1) return;
    this.#permissions.splice(index, 1);
    this.#cancelQuestion(open);
    this.#change();
  }

  /** Ends a question that the agent wants no answer to, whether or not a person has seen it. */
  #cancelQuestion({ request, answer, isShown }: OpenPermission): void {
    answer(cancelled);
    if (!isShown) return;
    this.#lastWithdrawn = request.id;
    this.#options.onWithdrawn(request.id);
  }

  #fail(message: string): AcpFailure {
    if (this.#failure === undefined) {
      this.#failure = new AcpFailure(this.#withStderr(message));
      this.#flushText();
      for (const { answer } of this.#permissions.splice(0)) answer(cancelled);
      if (this.#child.pid !== undefined) {
        kill(this.#child.pid, 'SIGKILL');
        this.#options.guard.remove(this.#child.pid);
      }
      this.#connection?.close();
    }
    this.#change();
    this.#drain();
    return this.#failure;
  }

  #withStderr(message: string): string {
    const printed = this.#stderr.toString(this.#options.needles()).trim();
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

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : JSON.stringify(error);

/** Whether the agent itself has answered with this error; a connection that closes has no code. */
const isResponse = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && typeof error.code === 'number';

/** The tokens of a turn, as far as the agent states them; the protocol does not demand it. */
function usageOf(response: PromptResponse): AcpUsage | undefined {
  const { usage } = response as { readonly usage?: Partial<AcpUsage> | null };
  const count = (value: unknown) =>
    typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 0;
  return usage == null
    ? undefined
    : { inputTokens: count(usage.inputTokens), outputTokens: count(usage.outputTokens) };
}

const untilAborted = (promise: Promise<undefined>, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', abort, { once: true });
    void promise.then(() => {
      signal.removeEventListener('abort', abort);
      resolve();
    });
  });
