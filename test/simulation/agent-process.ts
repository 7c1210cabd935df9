import type {
  AgentConversation,
  AgentFailure,
  NewAgentConversation,
} from '../../src/agent/agent.ts';
import { AgentError } from '../../src/agent/errors.ts';
import type { Timer } from '@conversation-operator/base/clock';
import type { ExecutionStatus } from '../../src/resources/conversation-status.ts';
import { callOf, lookalikeOf } from './model-calls.ts';
import type { Random } from './random.ts';
import type { Scheduler } from './scheduler.ts';

/** A conversation on a volume, which outlives the agent. */
export interface StoredConversation {
  readonly id: string;
  /** UID of the resource for which the conversation was created. */
  readonly uid: string | undefined;
  /** Texts, oldest first. */
  readonly messages: string[];
  status: ExecutionStatus;
  /** The status that readers still see: it lags behind for a moment. */
  before: { readonly status: ExecutionStatus; readonly until: number };
  /**
   * The run is on, and the volume keeps another status until then. A container that ends before
   * makes that status the true one.
   */
  unsaved: { readonly status: ExecutionStatus; readonly until: number } | undefined;
  /** How its run will end, by itself. */
  end: RunEnd;
  /** The action that waits for an answer. */
  question: AskedQuestion | undefined;
  /** Number of questions so far. */
  asked: number;
  /** The call of a question that was rejected because its agent was stopped. */
  lostCall: string | undefined;
  /** Ids of the questions whose action was rejected because its agent was stopped. */
  readonly rejected: Set<string>;
  /** Id of the last question that a message accepted. */
  acceptedByMessage: string | undefined;
  /** Why its last run ended in `error`: not known where its container ended it. */
  failure: AgentFailure | undefined;
  /** The agent restarted while an action waited: any answer makes the model forget its request. */
  reloaded: boolean;
  /** The next work of the run ends the container, each time that the run resumes. */
  deadly: boolean;
  /** The agent can't resume a run of the conversation: each attempt fails. */
  broken: boolean;
  /** A person wants the conversation to work, and no run of it has ended by itself since. */
  wanted: boolean;
  /** The container was lost while its sandbox was wanted, and no resume was requested since. */
  lost: boolean;
  /** Consecutive resumes that were requested after such losses. */
  continuations: number;
  /** Pod losses that are not the run's fault; operators that missed the cause may count them. */
  disruptions: number;
  /**
   * How many runs ended with their container while the sandbox was wanted, since its owner last
   * asked the operator for anything or a run ended by itself. The operator learns of no message
   * that its owner sends to the agent itself while a run is under way.
   */
  losses: number;
  /** The rest of the run after its interruption. */
  remainingMs: number;
  runStartedAt: number;
  interruptedAt: number;
  updatedAt: number;
  /** The run was interrupted while its owner paused the sandbox; no resume was requested since. */
  pausedByOwner: boolean;
  /** The run was interrupted at about that time: the order of events decides whether it resumes. */
  mayStayPaused: boolean;
  /** When its last run began that never ends and reports nothing; absent: none has. */
  stalledAt: number | undefined;
}

/** A question, with the call that it is about: the model may request the same call again. */
export interface AskedQuestion {
  readonly id: string;
  readonly call: string;
}

/** A run may end in a question: a person answers it, and the run continues. */
export type RunEnd = Extract<
  ExecutionStatus,
  'finished' | 'error' | 'stuck' | 'waiting_for_confirmation'
>;

/** The end of a run half-way: by a request, or with its container. */
export type RunInterruption = 'interrupted' | 'rejected' | 'killed';

/** Chances of the ends of runs, where not all of them succeed. */
export interface EndChances {
  /** A conversation whose runs end their container. */
  readonly deadly: number;
  /** A conversation whose runs can't resume. */
  readonly broken: number;
  /** A run that finishes. */
  readonly finished: number;
  /** A run that does not finish asks a question; absent: about half of them do. */
  readonly questions?: number;
}

/** The content of a claim. */
export class Volume {
  readonly claimUid: string;
  readonly conversations = new Map<string, StoredConversation>();
  cloned = false;
  /** The container that writes to it; on a lost node it runs on, and its volume is taken away. */
  holder: string | undefined;

  constructor(claimUid: string) {
    this.claimUid = claimUid;
  }
}

export interface ContainerOptions {
  readonly id: string;
  readonly podUid: string;
  readonly podName: string;
  readonly sandboxUid: string;
  readonly bootstrapKey: string;
  readonly volume: Volume;
  readonly scheduler: Scheduler;
  readonly random: Random;
  /** How long tools run that keep a message waiting; absent: no time. */
  readonly steps?: Random | undefined;
  /** Chooses the ends of runs that do not finish; absent: all runs finish. */
  readonly ends?: Random | undefined;
  readonly endChances?: Partial<EndChances> | undefined;
  /** Which runs never end and report nothing; absent: none, and no run reports before its end. */
  readonly stalls?: Random | undefined;
  /** The agent asks, or executes the call of its question. */
  readonly onAsked?: (question: AskedQuestion) => void;
  readonly onExecuted?: (question: AskedQuestion) => void;
  /** A run has ended the container. */
  readonly onDeath: () => void;
  readonly onInterrupted: (conversation: StoredConversation, how: RunInterruption) => void;
  readonly onFirstMessage: (conversationId: string) => void;
  readonly onMessage: (text: string) => void;
  /** The agent's own report of a status, which comes before its readers see that status. */
  readonly onStatus: (conversation: StoredConversation) => void;
}

interface Run {
  readonly conversation: StoredConversation;
  readonly timer: Timer;
  /** The run never ends by itself. */
  readonly stalled: boolean;
  /** Callbacks for the end of the present step: after a while, or when the run is interrupted. */
  readonly waiting: Set<() => void>;
}

/** End of the text of a message whose sender wants no run for it. */
export const withoutRun = ' without a run';

/** One run of an agent's container. */
export class AgentProcess {
  readonly #options: ContainerOptions;
  /** When its container was created: whatever another one had begun had ended by then. */
  readonly bootedAfter: number;
  readonly #runs = new Map<string, Run>();
  #silence = { since: 0, until: 0 };
  #sessionKey: string | undefined;
  #bootedAt: number;
  alive = true;
  #isDying = false;
  /** The agent accepts connections and answers nothing. */
  hung = false;
  /** A caller with the right key has had an answer. */
  hasAnswered = false;
  initialisedAt: number | undefined;
  endedAt: number | undefined;
  /** The agent was hung or out of reach until then. */
  troubledUntil = 0;

  constructor(options: ContainerOptions, bootMs: number) {
    this.#options = options;
    this.bootedAfter = options.scheduler.monotonic();
    this.#bootedAt = options.scheduler.monotonic() + bootMs;
  }

  get #chances(): EndChances {
    return { deadly: 0.15, broken: 0.15, finished: 0.7, ...this.#options.endChances };
  }

  get id(): string {
    return this.#options.id;
  }

  get podUid(): string {
    return this.#options.podUid;
  }

  get podName(): string {
    return this.#options.podName;
  }

  get sandboxUid(): string {
    return this.#options.sandboxUid;
  }

  get volume(): Volume {
    return this.#options.volume;
  }

  /** Takes orders to interrupt a run, and does not carry them out. */
  isDeaf = false;

  /** Since when it answers nothing; undefined: it answers. */
  get silentSince(): number | undefined {
    if (this.hung) return -Infinity;
    return this.#options.scheduler.monotonic() < this.#silence.until
      ? this.#silence.since
      : undefined;
  }

  /** Whether the agent will answer again, if its container does not end. */
  get comesBack(): boolean {
    return Number.isFinite(this.#silence.until);
  }

  /** The agent accepts connections and answers nothing for this time; its runs continue. */
  fallSilent(forMs: number): void {
    const since = this.#options.scheduler.monotonic();
    this.#silence = { since, until: since + forMs };
    this.troubledUntil = this.#silence.until + 10_000;
  }

  get listening(): boolean {
    return this.#options.scheduler.monotonic() >= this.#bootedAt;
  }

  get state(): 'dormant' | 'ready' {
    return this.#sessionKey === undefined ? 'dormant' : 'ready';
  }

  initialise(bootstrapKey: string, sessionKey: string): void {
    if (this.#sessionKey === sessionKey) return;
    if (this.#sessionKey !== undefined || bootstrapKey !== this.#options.bootstrapKey)
      throw new AgentError('unauthorized', 'wrong key');
    this.#sessionKey = sessionKey;
    // Only its own bootstrap key gets this answer, which is as good as one to its session key.
    this.hasAnswered = true;
    this.volume.holder = this.id;
    this.initialisedAt = this.#options.scheduler.monotonic();
    for (const conversation of this.volume.conversations.values()) {
      const { unsaved } = conversation;
      conversation.unsaved = undefined;
      conversation.before = { status: conversation.status, until: 0 };
      // The last saved state is older than the last that it has shown.
      conversation.updatedAt -= this.#options.random.between(0, 500);
      if (conversation.status === 'waiting_for_confirmation') conversation.reloaded = true;
      // A saved run in which an earlier container was killed; the cause is unknown.
      if (conversation.status === 'running') this.#set(conversation, unsaved?.status ?? 'error', 0);
    }
  }

  authenticate(sessionKey: string): void {
    if (this.#sessionKey === undefined)
      throw new AgentError('dormant', 'the agent waits for its keys');
    if (this.#sessionKey !== sessionKey) throw new AgentError('unauthorized', 'wrong key');
    this.hasAnswered = true;
  }

  create({ id, uid, message }: NewAgentConversation): {
    readonly created: boolean;
    readonly status: AgentConversation;
  } {
    const known = this.volume.conversations.get(id);
    if (known !== undefined && known.uid !== uid)
      throw new AgentError('refused', 'an earlier one of this id was here');
    if (known !== undefined) return { created: false, status: this.viewOf(known) };
    const { scheduler, random } = this.#options;
    const conversation: StoredConversation = {
      id,
      uid,
      messages: [],
      status: 'idle',
      before: { status: 'idle', until: 0 },
      unsaved: undefined,
      end: 'finished',
      question: undefined,
      asked: 0,
      lostCall: undefined,
      rejected: new Set(),
      acceptedByMessage: undefined,
      failure: undefined,
      reloaded: false,
      deadly: this.#options.ends?.chance(this.#chances.deadly) ?? false,
      broken: this.#options.ends?.chance(this.#chances.broken) ?? false,
      wanted: message !== undefined && message.run !== false,
      lost: false,
      continuations: 0,
      disruptions: 0,
      losses: 0,
      remainingMs: 0,
      runStartedAt: 0,
      interruptedAt: Number.NEGATIVE_INFINITY,
      updatedAt: scheduler.now(),
      pausedByOwner: false,
      mayStayPaused: false,
      stalledAt: undefined,
    };
    this.volume.conversations.set(id, conversation);
    if (message !== undefined) {
      this.#options.onFirstMessage(id);
      conversation.messages.push(message.content.map(({ text }) => text ?? '').join('\n'));
      const { questions } = this.#chances;
      // Runs are short where they end in questions.
      conversation.remainingMs =
        questions !== undefined || random.chance(0.3)
          ? random.between(200, 2_000)
          : random.between(2_000, 60_000);
      if (message.run !== false) this.run(conversation);
    }
    return { created: true, status: this.viewOf(conversation) };
  }

  /**
   * Another message of a user. While a tool runs, the message waits for the end of that tool,
   * whether or not its sender waits for the answer.
   */
  post(
    conversation: StoredConversation,
    {
      text,
      run,
      isDirect,
    }: { readonly text: string; readonly run: boolean; readonly isDirect: boolean },
  ): void {
    this.#options.onMessage(text);
    conversation.messages.push(text);
    if (['finished', 'stuck'].includes(conversation.status)) this.#set(conversation, 'idle');
    // The operator requests the run apart from the message, and only where no action waits.
    const isRunWanted =
      !text.endsWith(withoutRun) && conversation.status !== 'waiting_for_confirmation';
    if (!run && !isRunWanted) return;
    conversation.continuations = 0;
    conversation.disruptions = 0;
    if (!isDirect) conversation.losses = 0;
    conversation.wanted = true;
    // A person has repaired the conversation, or says something else to the model.
    conversation.deadly = false;
    conversation.broken = false;
    conversation.remainingMs += this.#options.random.between(500, 5_000);
    if (!run) return;
    // A message that starts a run accepts the action that waits: that is up to its sender.
    if (conversation.question !== undefined)
      conversation.acceptedByMessage = conversation.question.id;
    conversation.question = undefined;
    this.run(conversation);
  }

  /** Calls back at the end of the current step; at once without one, never if the process dies. */
  afterStep(conversation: StoredConversation, callback: () => void): void {
    const { scheduler, steps } = this.#options;
    const run = this.#runs.get(conversation.id);
    if (run === undefined || steps === undefined || steps.chance(0.5)) {
      callback();
      return;
    }
    const end = () => {
      if (!run.waiting.delete(end)) return;
      // The run's own last word comes first.
      scheduler.after(0, () => {
        if (this.alive) callback();
      });
    };
    run.waiting.add(end);
    scheduler.after(steps.between(0, 30_000), end);
  }

  run(conversation: StoredConversation): void {
    if (this.#runs.has(conversation.id)) return;
    conversation.pausedByOwner = false;
    conversation.mayStayPaused = false;
    if (conversation.status === 'finished' && conversation.remainingMs <= 0) return;
    // Without a new message it is stuck again at once.
    if (conversation.status === 'stuck') return;
    const { scheduler, random, ends, stalls } = this.#options;
    conversation.runStartedAt = scheduler.monotonic();
    conversation.interruptedAt = Number.NEGATIVE_INFINITY;
    conversation.failure = undefined;
    const { status } = conversation;
    // A request to run accepts the action that waits.
    if (status === 'waiting_for_confirmation') {
      conversation.remainingMs = random.between(200, 5_000);
      if (conversation.question !== undefined) this.#options.onExecuted?.(conversation.question);
      conversation.question = undefined;
    }
    this.#set(conversation, 'running');
    // A run that begins is saved a moment later; a message may have come to one that was over.
    conversation.unsaved = {
      status: status === 'finished' ? 'idle' : status,
      until: scheduler.monotonic() + random.between(0, 300),
    };
    const { finished, questions } = this.#chances;
    conversation.end =
      ends === undefined || ends.chance(finished)
        ? 'finished'
        : questions !== undefined && ends.chance(questions)
          ? 'waiting_for_confirmation'
          : (ends.pick(unhappyEnds) ?? 'finished');
    const waiting = new Set<() => void>();
    const stalled = !conversation.deadly && stalls?.chance(0.25) === true;
    if (stalled) conversation.stalledAt = scheduler.monotonic();
    const lastsMs = conversation.deadly
      ? random.between(100, 3_000)
      : stalled
        ? Infinity
        : Math.max(1, conversation.remainingMs);
    const timer = scheduler.after(lastsMs, () => {
      if (conversation.deadly) {
        this.#options.onDeath();
        return;
      }
      this.#runs.delete(conversation.id);
      for (const end of [...waiting]) end();
      if (this.volume.holder !== this.id) return;
      conversation.continuations = 0;
      conversation.disruptions = 0;
      conversation.losses = 0;
      conversation.wanted = false;
      conversation.remainingMs = 0;
      conversation.reloaded = false;
      if (conversation.end === 'error')
        conversation.failure = { code: 'LLMAuthenticationError', detail: 'no such key' };
      if (conversation.end === 'waiting_for_confirmation') this.#ask(conversation);
      else conversation.lostCall = undefined;
      this.#set(conversation, conversation.end);
      // The container may end before a poll has seen that.
      if (conversation.end === 'error' && ends?.chance(0.2) === true) {
        this.#isDying = true;
        scheduler.after(random.between(0, 500), this.#options.onDeath);
      }
    });
    const run = { conversation, timer, stalled, waiting };
    this.#runs.set(conversation.id, run);
    if (stalls !== undefined && !stalled) this.#report(run);
  }

  /** The agent stores a report of the run now and then. */
  #report(run: Run): void {
    const { scheduler } = this.#options;
    scheduler.after(reportMs, () => {
      if (this.#runs.get(run.conversation.id) !== run || this.volume.holder !== this.id) return;
      run.conversation.updatedAt = scheduler.now();
      this.#report(run);
    });
  }

  /** The model often repeats the call that was rejected at a stop, at other times a similar one. */
  #ask(conversation: StoredConversation): void {
    const number = ++conversation.asked;
    const name = conversation.uid ?? conversation.id;
    const { lostCall } = conversation;
    conversation.lostCall = undefined;
    conversation.question = {
      id: `${name}-${number}`,
      call: lostCall === undefined ? callOf(name, number) : nextCall(lostCall, number),
    };
    this.#options.onAsked?.(conversation.question);
  }

  /** Rejects the waiting action, if any, as before a stop of the agent or by a person's request. */
  reject(conversation: StoredConversation): void {
    if (conversation.status !== 'waiting_for_confirmation') return;
    this.#options.onInterrupted(conversation, 'rejected');
    conversation.lostCall = conversation.question?.call;
    if (conversation.question !== undefined) conversation.rejected.add(conversation.question.id);
    conversation.question = undefined;
    conversation.wanted = true;
    conversation.remainingMs = this.#options.random.between(200, 5_000);
    this.#set(conversation, 'idle');
  }

  /** The answer of a person to what waits now: the protocol has no id of a question. */
  respond(conversation: StoredConversation, accept: boolean, isDirect: boolean): void {
    if (conversation.status !== 'waiting_for_confirmation') return;
    conversation.continuations = 0;
    conversation.disruptions = 0;
    if (!isDirect) conversation.losses = 0;
    conversation.wanted = accept;
    if (accept) {
      this.run(conversation);
      return;
    }
    conversation.question = undefined;
    this.#set(conversation, 'idle');
  }

  interrupt(conversation: StoredConversation): void {
    conversation.interruptedAt = this.#options.scheduler.monotonic();
    if (this.isDeaf) return;
    if (this.#endRun(conversation.id, 'interrupted')) this.#set(conversation, 'paused');
  }

  /** Conversations that the agent reports with this status: the report lags behind for a moment. */
  shownAs(status: ExecutionStatus): readonly StoredConversation[] {
    return [...this.volume.conversations.values()].filter(
      (conversation) => this.viewOf(conversation).executionStatus === status,
    );
  }

  get running(): readonly StoredConversation[] {
    return [...this.#runs.values()].map(({ conversation }) => conversation);
  }

  /** Whether a run is going to end, of any client, or has ended and takes the container with it. */
  get mayDie(): boolean {
    return this.#isDying || [...this.#runs.values()].some(({ stalled }) => !stalled);
  }

  kill(): void {
    this.alive = false;
    this.endedAt ??= this.#options.scheduler.monotonic();
    for (const id of [...this.#runs.keys()]) this.#endRun(id, 'killed');
  }

  viewOf(conversation: StoredConversation): AgentConversation {
    const { status, before } = conversation;
    const shown = this.#options.scheduler.monotonic() < before.until ? before.status : status;
    return {
      id: conversation.id,
      executionStatus: shown,
      reportedStatus: shown,
      title: undefined,
      updatedAt: new Date(conversation.updatedAt).toISOString(),
      lastUserMessageId:
        conversation.messages.length === 0 ? undefined : String(conversation.messages.length),
      metrics: undefined,
    };
  }

  #endRun(id: string, how: RunInterruption): boolean {
    const run = this.#runs.get(id);
    if (run === undefined) return false;
    const { conversation, timer, waiting } = run;
    timer.cancel();
    this.#runs.delete(id);
    for (const end of [...waiting]) end();
    if (this.volume.holder !== this.id) return false;
    if (
      conversation.unsaved !== undefined &&
      this.#options.scheduler.monotonic() >= conversation.unsaved.until
    )
      conversation.unsaved = undefined;
    this.#options.onInterrupted(conversation, how);
    conversation.remainingMs = Math.max(
      1,
      conversation.remainingMs - (this.#options.scheduler.monotonic() - conversation.runStartedAt),
    );
    return true;
  }

  #set(
    conversation: StoredConversation,
    status: ExecutionStatus,
    lagMs = this.#options.random.between(0, 900),
  ): void {
    const { scheduler } = this.#options;
    conversation.before = { status: conversation.status, until: scheduler.monotonic() + lagMs };
    conversation.status = status;
    if (status !== 'running') conversation.unsaved = undefined;
    // That a run begins is no event of it.
    if (status !== 'running') conversation.updatedAt = scheduler.now();
    this.#options.onStatus(conversation);
  }
}

const nextCall = (lostCall: string, number: number): string =>
  number % 4 === 0 ? lookalikeOf(lostCall, number) : lostCall;

const reportMs = 4_000;

const unhappyEnds: readonly RunEnd[] = [
  'error',
  'stuck',
  'waiting_for_confirmation',
  'waiting_for_confirmation',
];
