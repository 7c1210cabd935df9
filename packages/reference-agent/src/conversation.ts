import { mkdir, readFile } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { ExecutionStatus } from './execution-status.ts';
import type { Commands } from './commands.ts';
import { createFolder, removeFolder, replaceFile } from './durable-files.ts';
import { EventLog, initialLog, type Draft } from './event-log.ts';
import {
  statusUpdate,
  textOf,
  type ActionEvent,
  type AgentEvent,
  type Content,
  type EventBody,
  type MessageEvent,
  type Stats,
} from './events.ts';
import { metaSchema, type Meta } from './meta.ts';
import { PauseRequested, RunFailure, type Program, type Run } from './program.ts';

export interface ConversationHost {
  readonly commands: Commands;
  programFor(meta: Meta): Program;
  /** What a command may see, with the secrets that it names; and the values to hide in its output. */
  environmentFor(meta: Meta, command: string): { readonly env: Readonly<Record<string, string>>; readonly hidden: readonly string[] };
  /** Something has happened in a conversation. */
  touch(): void;
  onError(message: string, error: unknown): void;
}

export interface NewMessage {
  readonly role: 'user' | 'system' | 'assistant';
  readonly content: readonly Content[];
}

type StopReason = 'interrupt' | 'shutdown';

interface CurrentRun {
  readonly abort: AbortController;
  readonly ended: Promise<void>;
  pauseRequested: boolean;
  inCommand: boolean;
}

const maxToolOutputBytes = 30_000;
const metaFile = 'meta.json';
const logFile = 'events.jsonl';

const restartText =
  'A restart occurred while this tool was in progress. It may have been done in part, and is not repeated by itself: check before doing it again.';
const interruptText = 'Tool call interrupted before completion. The conversation was paused.';

/** One conversation and its run. All that it knows is derived from its log, so that any process can go on with it. */
export class Conversation {
  readonly #folder: string;
  readonly #host: ConversationHost;
  readonly #state = new DerivedState();
  #meta: Meta;
  #log: EventLog | undefined;
  #run: CurrentRun | undefined;
  #closed = false;
  /** A run has ended without a word in the log, because the log could not be written. */
  #stalled = false;

  private constructor(folder: string, meta: Meta, host: ConversationHost) {
    this.#folder = folder;
    this.#meta = meta;
    this.#host = host;
  }

  /** The conversation and its first message, whose run starts with it, are on the disk together or not at all. */
  static async create(folder: string, meta: Meta, message: NewMessage | undefined, host: ConversationHost): Promise<Conversation> {
    await mkdir(meta.workingDir, { recursive: true });
    const drafts =
      message === undefined ? [{ event: statusUpdate('idle') }] : [...messageDrafts(message), { event: statusUpdate('running') }];
    await createFolder(folder, { [metaFile]: JSON.stringify(meta), [logFile]: initialLog(drafts) });
    const conversation = await Conversation.#open(folder, host);
    if (message !== undefined) conversation.#start();
    return conversation;
  }

  /** A run that an earlier process was killed in becomes status `error`, and what it was doing a failed tool call. */
  static async load(folder: string, host: ConversationHost): Promise<Conversation> {
    const conversation = await Conversation.#open(folder, host);
    await conversation.log.append(() =>
      conversation.status === 'running' ? [...conversation.#openActionFailed(restartText), { event: statusUpdate('error') }] : [],
    );
    return conversation;
  }

  static async #open(folder: string, host: ConversationHost): Promise<Conversation> {
    const meta = metaSchema.parse(JSON.parse(await readFile(join(folder, metaFile), 'utf8')));
    const conversation = new Conversation(folder, meta, host);
    conversation.#log = await EventLog.open(join(folder, logFile), (event) => conversation.#state.apply(event));
    return conversation;
  }

  get log(): EventLog {
    if (this.#log === undefined) throw new Error('the log is opened with the conversation');
    return this.#log;
  }

  get meta(): Meta {
    return this.#meta;
  }

  get folder(): string {
    return this.#folder;
  }

  get status(): ExecutionStatus {
    // So that it can be run again; a restart would find the same.
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

  /** Stores it; with `run`, work starts, or goes on with it when a run is under way. */
  async post(message: NewMessage, { run }: { readonly run: boolean }): Promise<void> {
    const written = await this.log.append(() => {
      const starts = run && this.status !== 'running';
      const standsStill = !run && ['finished', 'error', 'stuck'].includes(this.status);
      return [
        ...messageDrafts(message),
        ...(starts ? [{ event: statusUpdate('running') }] : []),
        ...(standsStill ? [{ event: statusUpdate('idle') }] : []),
      ];
    });
    this.#host.touch();
    if (written.some(startsRun)) this.#start();
  }

  /** False: it runs already. Nothing happens when all is done. */
  async run(): Promise<boolean> {
    const seen: { status?: ExecutionStatus } = {};
    const written = await this.log.append(() => {
      seen.status = this.status;
      return ['running', 'finished'].includes(this.status) ? [] : [{ event: statusUpdate('running') }];
    });
    if (written.some(startsRun)) this.#start();
    return seen.status !== 'running';
  }

  /** Lets a running command end, and waits for it; a model's answer that is on its way is not waited for. */
  async pause(): Promise<void> {
    const run = this.#run;
    if (run !== undefined) {
      run.pauseRequested = true;
      if (run.inCommand) await run.ended;
      return;
    }
    await this.log.append(() =>
      this.status === 'idle' ? [{ event: { kind: 'PauseEvent', source: 'user' } }, { event: statusUpdate('paused') }] : [],
    );
  }

  /** Kills a running command; returns when the run stands still. */
  async stop(reason: StopReason): Promise<void> {
    const run = this.#run;
    run?.abort.abort(reason);
    await run?.ended;
  }

  /** No more runs start. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.stop('shutdown');
    await this.log.settled();
  }

  async delete(): Promise<void> {
    await this.close();
    await removeFolder(this.#folder);
  }

  async update(changes: Partial<Pick<Meta, 'title' | 'tags'>>): Promise<void> {
    const meta = { ...this.#meta, ...changes };
    await replaceFile(join(this.#folder, metaFile), JSON.stringify(meta));
    this.#meta = meta;
  }

  /** Positions of the user's messages that no run has dealt with. */
  pendingMessages(): readonly number[] {
    const { entries, handledThrough } = this.log;
    const pending: number[] = [];
    for (let position = handledThrough; position < entries.length; position += 1) {
      const entry = entries[position];
      if (entry?.kind === 'MessageEvent' && entry.source === 'user') pending.push(position);
    }
    return pending;
  }

  /** The status in the log is `running` already. */
  #start(): void {
    if (this.#closed) return;
    const abort = new AbortController();
    const { promise: ended, resolve } = Promise.withResolvers<undefined>();
    const run: CurrentRun = { abort, ended: ended, pauseRequested: false, inCommand: false };
    this.#run = run;
    this.#stalled = false;
    void this.#work(run)
      .catch((error: unknown) => {
        this.#stalled = true;
        this.#host.onError('the end of a run could not be recorded', error);
      })
      .finally(() => {
        // A message may have started the next run between this one's last word and now.
        if (this.#run === run) this.#run = undefined;
        this.#host.touch();
        resolve(undefined);
      });
  }

  async #work(run: CurrentRun): Promise<void> {
    try {
      const program = this.#host.programFor(this.#meta);
      for (let end: readonly AgentEvent[] = []; end.length === 0;) {
        await program.work(this.#viewFor(run));
        run.abort.signal.throwIfAborted();
        // A message that has come in the meantime belongs to this run.
        end = await this.log.append(() => (this.pendingMessages().length === 0 ? [{ event: statusUpdate('finished') }] : []));
      }
    } catch (error) {
      await this.log.append(() => this.#endingOf(run, error));
    }
  }

  #endingOf(run: CurrentRun, error: unknown): readonly Draft[] {
    const { signal } = run.abort;
    if (signal.aborted) {
      const kind = signal.reason === 'interrupt' ? 'InterruptEvent' : 'PauseEvent';
      return [...this.#openActionFailed(interruptText), { event: { kind, source: 'user' } }, { event: statusUpdate('paused') }];
    }
    if (error instanceof PauseRequested) return [{ event: { kind: 'PauseEvent', source: 'user' } }, { event: statusUpdate('paused') }];
    const failure =
      error instanceof RunFailure
        ? error
        : new RunFailure('InternalError', 'The agent itself failed.', {
            cause: error,
            classification: { kind: 'internal', retryable: true, user_action: 'retry' },
          });
    if (failure.code === 'InternalError') this.#host.onError('a run failed', error);
    const { code, classification, status } = failure;
    const event = { kind: 'ConversationErrorEvent', source: 'environment', code, detail: failure.message, classification } as const;
    return [...this.#openActionFailed(interruptText), ...(status === 'error' ? [{ event }] : []), { event: statusUpdate(status) }];
  }

  #openActionFailed(error: string): readonly Draft[] {
    const action = this.#state.openAction;
    if (action === undefined) return [];
    const { tool_name, tool_call_id } = action;
    return [{ event: { kind: 'AgentErrorEvent', source: 'agent', tool_name, tool_call_id, error } }];
  }

  #viewFor(run: CurrentRun): Run {
    const { workingDir, maxIterations, systemMessageSuffix, loadProjectSkills } = this.#meta;
    const { signal } = run.abort;
    const state = this.#state;
    return {
      workingDir,
      maxIterations,
      systemMessageSuffix,
      loadProjectSkills,
      log: this.log,
      get stats() {
        return state.stats;
      },
      signal,
      checkpoint: () => {
        signal.throwIfAborted();
        if (run.pauseRequested) throw new PauseRequested();
      },
      pendingMessages: () => this.pendingMessages(),
      append: async (...drafts) => {
        // An interrupt has the last word: nothing is recorded after it.
        await this.log.append(() => {
          signal.throwIfAborted();
          return drafts;
        });
        this.#host.touch();
      },
      execute: async ({ command, shell = 'sh', timeoutSeconds }) => {
        const { env, hidden } = this.#host.environmentFor(this.#meta, command);
        run.inCommand = true;
        try {
          const result = await this.#host.commands.run({
            command,
            shell,
            cwd: workingDir,
            env,
            timeoutMs: timeoutSeconds * 1000,
            maxOutputBytes: maxToolOutputBytes,
            merged: true,
            signal,
          });
          return { ...result, stdout: mask(result.stdout, hidden) };
        } finally {
          run.inCommand = false;
        }
      },
    };
  }
}

const startsRun = (event: AgentEvent): boolean =>
  event.kind === 'ConversationStateUpdateEvent' && event.key === 'execution_status' && event.value === 'running';

/** What the events add up to. */
class DerivedState {
  status: ExecutionStatus = 'idle';
  stats: Stats = { usage_to_metrics: {} };
  lastUserMessageId: string | undefined;
  title: string | undefined;
  openAction: (AgentEvent & ActionEvent) | undefined;

  apply(event: AgentEvent): void {
    switch (event.kind) {
      case 'ConversationStateUpdateEvent':
        if (event.key === 'execution_status') this.status = event.value;
        if (event.key === 'stats') this.stats = event.value;
        return;
      case 'MessageEvent':
        if (event.source !== 'user') return;
        this.lastUserMessageId = event.id;
        this.title ??= titleOf(event);
        return;
      case 'ActionEvent':
        this.openAction = event;
        return;
      case 'ObservationEvent':
      case 'AgentErrorEvent':
        if (event.tool_call_id === this.openAction?.tool_call_id) this.openAction = undefined;
        return;
      case 'ConversationErrorEvent':
      case 'PauseEvent':
      case 'InterruptEvent':
        return;
    }
  }
}

function messageDrafts({ role, content }: NewMessage): Draft[] {
  const id = randomUUID();
  const event: EventBody = { kind: 'MessageEvent', source: 'user', llm_message: { role, content }, activated_skills: [] };
  return [
    { id, event },
    { event: { kind: 'ConversationStateUpdateEvent', source: 'environment', key: 'last_user_message_id', value: id } },
  ];
}

const maxTitleLength = 50;

/** The first words of the message that are no markup. */
function titleOf({ llm_message }: MessageEvent): string | undefined {
  const lines = textOf(llm_message.content).split('\n');
  const text = lines.map((line) => line.replace(/^\s*(```.*|~~~.*|[#>*-]+(?=\s))/, '').trim()).find((line) => line !== '');
  if (text === undefined || text.length <= maxTitleLength) return text;
  const cut = text.slice(0, maxTitleLength);
  return `${cut.slice(0, Math.max(cut.lastIndexOf(' '), maxTitleLength / 2)).trimEnd()}…`;
}

const mask = (text: string, hidden: readonly string[]): string =>
  hidden.reduce((masked, secret) => masked.replaceAll(secret, '<secret-hidden>'), text);
