import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { answerDraft, assertSameAnswer, withdrawal, type Decision } from './approvals.ts';
import { createFolder, removeFolder, replaceFile } from './durable-files.ts';
import { EventLog, initialLog, type Draft } from './event-log.ts';
import { DerivedState } from './derived-state.ts';
import {
  becomes,
  conversationError,
  failureOf,
  failuresOf,
  messageDrafts,
  paused,
  rejectionOf,
  restartText,
  startsRun,
  type NewMessage,
} from './drafts.ts';
import {
  stateEvent,
  type AgentEvent,
  type ApprovalRequest,
  type ExecutionStatus,
  type Stats,
} from './events.ts';
import { LiveActivity, LiveText } from './live-activity.ts';
import type { Needles } from './mask.ts';
import { metaSchema, type Meta } from './meta.ts';
import { ConfirmationRequested, PauseRequested, RunFailure, type ProgramLink } from './program.ts';
import { runViewOf, type ConversationHost, type CurrentRun } from './run-view.ts';
import { runConfirmed } from './tool-events.ts';

type StopReason = 'interrupt' | 'shutdown';

const metaFile = 'meta.json';
const logFile = 'events.jsonl';

const interruptText = 'Tool call interrupted before completion. The conversation was paused.';

/** A conversation and its run. Their state is in the log, so another process can continue them. */
export class Conversation {
  readonly #folder: string;
  readonly #host: ConversationHost;
  readonly #state = new DerivedState();
  /** Unfinished messages and outputs of commands, which no event contains yet. */
  readonly activity = new LiveActivity();
  readonly live: LiveText;
  readonly #link: ProgramLink;
  #meta: Meta;
  #updated: Promise<void> = Promise.resolve();
  #log: EventLog | undefined;
  #run: CurrentRun | undefined;
  #closed = false;
  /** True when a run ended without an event, because the log could not be written. */
  #stalled = false;

  private constructor(folder: string, meta: Meta, host: ConversationHost) {
    this.#folder = folder;
    this.#meta = meta;
    this.#host = host;
    const current = () => this.#meta;
    this.live = new LiveText(() => this.needles, this.activity);
    this.#link = {
      withdraw: (approvalId) => void this.#withdraw(approvalId),
      live: this.live,
      get meta() {
        return current();
      },
    };
  }

  /** Creates the conversation with its first message atomically, and starts a run for it. */
  static async create(
    folder: string,
    meta: Meta,
    message: NewMessage | undefined,
    host: ConversationHost,
  ): Promise<Conversation> {
    await mkdir(meta.workingDir, { recursive: true });
    const drafts =
      message === undefined ? [becomes('idle')] : [...messageDrafts(message), becomes('running')];
    await createFolder(folder, { [metaFile]: JSON.stringify(meta), [logFile]: initialLog(drafts) });
    const conversation = await Conversation.#open(folder, host);
    if (message !== undefined) conversation.#start();
    return conversation;
  }

  /** Loads a conversation. A run lost in a crash ends with `error`, and its tool call fails. */
  static async load(folder: string, host: ConversationHost): Promise<Conversation> {
    const conversation = await Conversation.#open(folder, host);
    await conversation.log.append(() =>
      conversation.status === 'running'
        ? [...conversation.#failures(restartText), becomes('error')]
        : [],
    );
    return conversation;
  }

  static async #open(folder: string, host: ConversationHost): Promise<Conversation> {
    const meta = metaSchema.parse(JSON.parse(await readFile(join(folder, metaFile), 'utf8')));
    const conversation = new Conversation(folder, meta, host);
    conversation.#log = await EventLog.open(join(folder, logFile), (event) => {
      conversation.#state.apply(event);
      conversation.activity.apply(event);
    });
    return conversation;
  }

  get log(): EventLog {
    if (this.#log === undefined) throw new Error('the log is opened with the conversation');
    return this.#log;
  }

  get meta(): Meta {
    return this.#meta;
  }

  get needles(): Needles {
    return this.#host.needlesOf(this.#meta);
  }

  /** Milliseconds since the current run began; undefined without a run. */
  get runMs(): number | undefined {
    return this.#run && Math.round(performance.now() - this.#run.startedMs);
  }

  get folder(): string {
    return this.#folder;
  }

  get status(): ExecutionStatus {
    // A stalled run counts as failed, as after a restart, so that a client can start the next run.
    return this.#stalled ? 'error' : this.#state.status;
  }

  get stats(): Stats {
    return this.#state.stats;
  }

  get title(): string | undefined {
    return this.#meta.title ?? this.#state.title;
  }

  get lastUserMessageId(): string | undefined {
    return this.#state.lastUserMessageId;
  }

  /** Stores the message. With `run`, the current run or a new one handles the message. */
  async post(message: NewMessage, { run }: { readonly run: boolean }): Promise<void> {
    const written = await this.log.append(() => {
      const starts = run && this.status !== 'running';
      const becomesIdle = !run && ['finished', 'error', 'stuck'].includes(this.status);
      return [
        ...messageDrafts(message),
        ...(starts ? [becomes('running')] : []),
        ...(becomesIdle ? [becomes('idle')] : []),
      ];
    });
    this.#host.touch();
    if (written.some(startsRun)) this.#start();
  }

  /**
   * Starts a run; false if a run is in progress. A finished conversation remains unchanged. A run
   * that `continues` tells an ACP agent to go on although its last turn is over: its model was
   * refused.
   */
  async run({ continues = false }: { readonly continues?: boolean } = {}): Promise<boolean> {
    const seen: { status?: ExecutionStatus } = {};
    const written = await this.log.append(() => {
      seen.status = this.status;
      if (this.status === 'running') return [];
      if (this.status === 'finished' && !continues) return [];
      const isOver = continues && this.#state.interruptedBy === undefined;
      return [
        ...(isOver ? [{ event: stateEvent({ key: 'acp_turn', value: 'continued' }) }] : []),
        becomes('running'),
      ];
    });
    if (written.some(startsRun)) this.#start();
    return seen.status !== 'running';
  }

  /** Approval request of an ACP agent; undefined unless the request waits for an answer now. */
  get approval(): ApprovalRequest | undefined {
    const { status, approval } = this.#state;
    return status === 'waiting_for_confirmation' && approval?.answer === undefined
      ? approval?.request
      : undefined;
  }

  /**
   * Accepts or rejects the waiting action; does nothing if no action waits. A rejection sets the
   * status `idle`, except that an ACP agent gets every answer in a run. If a decision has an
   * `approvalId` and cannot be stored, throws an HttpError unless it repeats the stored decision.
   */
  async respond(decision: Decision): Promise<void> {
    const { accept, reason, approvalId } = decision;
    const written = await this.log.append(() => {
      const { openAction: action, approval, answered } = this.#state;
      const isWaiting = this.status === 'waiting_for_confirmation';
      if (approvalId !== undefined) {
        // A new message sets the status `running` until the run waits for the same request again.
        const isOpen = approval?.answer === undefined && (isWaiting || this.status === 'running');
        if (!isOpen || approval?.request.id !== approvalId) {
          assertSameAnswer(approvalId, answered.get(approvalId), decision);
          return [];
        }
      } else if (!isWaiting || approval?.answer !== undefined) return [];
      if (approval !== undefined)
        return [
          ...(action === undefined || accept ? [] : [rejectionOf(action, reason)]),
          answerDraft(approval.request, decision),
          ...(isWaiting ? [becomes('running')] : []),
        ];
      if (action === undefined) return [];
      return accept ? [becomes('running')] : [rejectionOf(action, reason), becomes('idle')];
    });
    this.#host.touch();
    if (written.some(startsRun)) this.#start();
  }

  /** Pauses the run. Waits for a running command, but not for a pending response of the model. */
  async pause(): Promise<void> {
    const run = this.#run;
    if (run !== undefined) {
      run.pause.abort(new PauseRequested());
      if (run.inCommand) await run.ended;
      return;
    }
    await this.log.append(() => (this.status === 'idle' ? paused() : []));
  }

  /** Kills a running command, and resolves when the run has ended. */
  async stop(reason: StopReason): Promise<void> {
    const run = this.#run;
    run?.abort.abort(reason);
    await run?.ended;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.stop('shutdown');
    await this.#host.release(this.#meta);
    this.live.drop();
    await this.log.settled();
  }

  async delete(): Promise<void> {
    await this.close();
    await removeFolder(this.#folder);
  }

  /** Stores changed settings. `changesOf` is called when all earlier changes are stored. */
  update(
    changesOf: (
      meta: Meta,
    ) => Partial<Pick<Meta, 'title' | 'tags' | 'sealedSecrets' | 'sealedLookups'>>,
  ): Promise<void> {
    const updated = this.#updated.then(async () => {
      const meta = { ...this.#meta, ...changesOf(this.#meta) };
      await replaceFile(join(this.#folder, metaFile), JSON.stringify(meta));
      this.#meta = meta;
    });
    this.#updated = updated.catch(() => undefined);
    return updated;
  }

  pendingMessages(): readonly number[] {
    const { entries, handledThrough } = this.log;
    const pending: number[] = [];
    for (let position = handledThrough; position < entries.length; position += 1) {
      const entry = entries[position];
      if (entry?.kind === 'MessageEvent' && entry.source === 'user') pending.push(position);
    }
    return pending;
  }

  /** Withdraws an approval request that the agent has cancelled. Never rejects. */
  async #withdraw(approvalId: string): Promise<void> {
    try {
      const written = await this.log.append(() => {
        const { approval } = this.#state;
        if (this.#closed || approval?.request.id !== approvalId || approval.answer !== undefined)
          return [];
        return [
          withdrawal(approvalId),
          ...(this.status === 'waiting_for_confirmation' ? [becomes('running')] : []),
        ];
      });
      if (written.some(startsRun)) this.#start();
    } catch (error) {
      this.#host.onError('the end of a question could not be recorded', error);
    }
  }

  /** Starts a run whose status in the log is already `running`. */
  #start(): void {
    if (this.#closed) return;
    const abort = new AbortController();
    const { promise: ended, resolve } = Promise.withResolvers<undefined>();
    const tools = this.#host.toolsFor(this.#meta);
    const run: CurrentRun = {
      abort,
      ended,
      pause: new AbortController(),
      tools,
      startedMs: performance.now(),
      inCommand: false,
    };
    this.#run = run;
    this.#stalled = false;
    void this.#work(run)
      .catch((error: unknown) => {
        this.#stalled = true;
        this.#host.onError('the end of a run could not be recorded', error);
      })
      .finally(() => {
        tools.close();
        // A message may have started the next run after the last event of this run.
        if (this.#run === run) {
          this.#run = undefined;
          this.activity.clear();
        }
        this.#host.touch();
        resolve(undefined);
      });
  }

  async #work(run: CurrentRun): Promise<void> {
    for (let end: readonly AgentEvent[] = []; end.length === 0;) {
      try {
        const view = () =>
          runViewOf({ run, host: this.#host, state: this.#state, conversation: this });
        const program = this.#host.programFor(this.#meta, this.#link);
        // At the start of a run, an open action is one that waited for its confirmation.
        const { openAction } = this.#state;
        if (openAction !== undefined) await runConfirmed(view(), openAction);
        await program.work(view());
        run.abort.signal.throwIfAborted();
        // A message that arrived while the run ended belongs to this run.
        end = await this.log.append(() =>
          this.pendingMessages().length === 0 ? [becomes('finished')] : [],
        );
      } catch (error) {
        end = await this.log.append(() => this.#endingOf(run, error));
      }
    }
  }

  /** Returns the last events of a run; none if the run continues. */
  #endingOf(run: CurrentRun, error: unknown): readonly Draft[] {
    const { signal } = run.abort;
    if (signal.aborted)
      // A signal without the reason `interrupt` comes from a shutdown, which loses a running
      // command like a crash does.
      return signal.reason === 'interrupt'
        ? [...this.#failures(interruptText), ...paused('InterruptEvent')]
        : [...this.#failures(restartText), ...paused()];
    if (error instanceof ConfirmationRequested) {
      // The answer may have arrived after the program had read the approval request.
      const { approval } = this.#state;
      const isOver =
        error.approvalId !== undefined &&
        (approval?.request.id !== error.approvalId || approval.answer !== undefined);
      return isOver ? [] : [becomes('waiting_for_confirmation')];
    }
    if (error instanceof PauseRequested) return [...this.#failures(interruptText), ...paused()];
    const failure = error instanceof RunFailure ? error : internalFailure(error);
    if (failure.code === 'InternalError') this.#host.onError('a run failed', error);
    const { code, classification, status, message: detail } = failure;
    return [
      ...this.#failures(interruptText),
      ...failure.last,
      ...(status === 'error' ? [conversationError({ code, detail, classification })] : []),
      becomes(status),
    ];
  }

  #failures(reason: string): readonly Draft[] {
    const { openAction, openCalls } = this.#state;
    return [...failureOf(openAction, reason), ...failuresOf(openCalls.values(), reason)];
  }
}

const internalFailure = (cause: unknown): RunFailure =>
  new RunFailure('InternalError', 'The agent itself failed.', {
    cause,
    classification: { kind: 'internal', retryable: true, user_action: 'retry' },
  });
