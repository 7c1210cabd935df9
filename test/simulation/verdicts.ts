import { findCondition, isTrue } from '../../src/resources/conditions.ts';
import { conversations, isStartOver, startStatusOf, type Conversation } from '../../src/resources/conversation.ts';
import { conversationQuotas } from '../../src/resources/conversation-quota.ts';
import { ownerRule, quotaRules, type QuotaRule } from '../../src/resources/quota-rules.ts';
import {
  SandboxCondition,
  SandboxReason,
  isPausingReason,
  resumeRequestedAnnotation,
  sandboxes,
  slotTaken,
  type Sandbox,
} from '../../src/resources/sandbox.ts';
import type { Change, Cluster } from './cluster.ts';
import { Violation } from './safety.ts';
import type { Scheduler } from './scheduler.ts';

export interface VerdictsOptions {
  readonly cluster: Cluster;
  readonly scheduler: Scheduler;
  /** Whether the actor is a run of an operator. */
  readonly isOperator: (actor: string) => boolean;
}

/** What was true from `at` on, until the next. */
interface Moment {
  readonly at: number;
  /** Let in, and meant to run. */
  readonly holding: number;
  readonly newcomers: number;
  readonly rules: readonly QuotaRule[];
}

/** So old may be what an operator knows when nothing goes wrong. */
const unknownMs = 1_000;

/** The promises that hold for each single decision about who is let in and who is paused for others. There is one owner. */
export class Verdicts {
  readonly #options: VerdictsOptions;
  #moments: readonly Moment[] = [];
  #rules: readonly QuotaRule[] = [];
  #calmSince = Infinity;
  /** Of newcomers: since when they wait. */
  readonly #waitingSince = new Map<string, number>();
  /** Since when somebody asks for it: also while its pod is not gone yet. One that its owner pauses while it waits keeps its place. */
  readonly #askedAt = new Map<string, number>();
  readonly #runningSince = new Map<string, number>();
  /** Of those that may be paused for others. */
  readonly #settledSince = new Map<string, number>();
  /** Of conversations: since when they are in a sandbox. */
  readonly #joinedAt = new Map<string, number>();
  /** How often each has been paused since somebody last asked for anything. */
  readonly #pauses = new Map<string, number>();

  constructor(options: VerdictsOptions) {
    this.#options = options;
    options.cluster.onChange((change) => this.#look(change));
  }

  /**
   * From now on nothing goes wrong, and the operators have heard of what did: what they decide follows from what was true a
   * moment ago. Before, it may follow from what has not been true for minutes.
   */
  expectCalm(): void {
    this.#calmSince = this.#now;
  }

  get #now(): number {
    return this.#options.scheduler.monotonic();
  }

  get #calm(): boolean {
    return this.#now - this.#calmSince >= unknownMs;
  }

  #look(change: Change): void {
    if (change.plural === conversations.plural) this.#join(change.object as Conversation);
    if (change.plural === conversationQuotas.plural) {
      const rules = quotaRules(this.#options.cluster.quotas);
      this.#rules = [ownerRule(rules, 'alice'), rules.namespace].filter((rule) => rule !== undefined);
      if (!this.#options.isOperator(change.actor)) this.#pauses.clear();
      this.#remember();
    }
    if (change.plural === sandboxes.plural) {
      const sandbox = change.object as Sandbox;
      const before = change.before?.metadata.uid === sandbox.metadata.uid ? (change.before as Sandbox) : undefined;
      if (change.type === 'MODIFIED' && before !== undefined) this.#decided(sandbox, before);
      // Asked for by people, or made for a conversation.
      if (before === undefined || !this.#options.isOperator(change.actor)) this.#pauses.clear();
      this.#follow(sandbox, change.type === 'DELETED');
      this.#remember();
    }
    for (const sandbox of this.#options.cluster.sandboxes) this.#note(this.#settledSince, sandbox.metadata.uid, this.#isSettled(sandbox));
  }

  #remember(): void {
    const all = this.#options.cluster.sandboxes;
    const relevant = this.#recently();
    const holding = all.filter((sandbox) => isWanted(sandbox) && isAdmitted(sandbox)).length;
    this.#moments = [...relevant, { at: this.#now, holding, newcomers: all.filter(isNewcomer).length, rules: this.#rules }];
  }

  /** Everything of which an operator may think that it is true. */
  #recently(): readonly Moment[] {
    return this.#moments.filter((_, index) => this.#now - (this.#moments[index + 1]?.at ?? this.#now) <= unknownMs);
  }

  #follow(sandbox: Sandbox, gone: boolean): void {
    const { uid } = sandbox.metadata;
    const { waitingSince, activeSince } = sandbox.status ?? {};
    this.#note(this.#waitingSince, uid, !gone && isNewcomer(sandbox));
    this.#note(this.#askedAt, uid, !gone && (isAskedFor(sandbox) || waitingSince !== undefined));
    this.#note(this.#runningSince, uid, !gone && activeSince !== undefined);
  }

  /** Since when it has been so. */
  #note(times: Map<string, number>, uid: string, isSo: boolean): void {
    if (!isSo) times.delete(uid);
    else if (!times.has(uid)) times.set(uid, this.#now);
  }

  #join({ metadata: { uid }, status }: Conversation): void {
    if (status?.sandboxName !== undefined && !this.#joinedAt.has(uid)) this.#joinedAt.set(uid, this.#now);
  }

  #decided(sandbox: Sandbox, before: Sandbox): void {
    if (isAdmitted(sandbox) && !isAdmitted(before)) this.#admitted(before);
    if (!isAdmitted(sandbox) && isAdmitted(before) && reasonOf(sandbox) === SandboxReason.quota) this.#paused(before);
  }

  /** Every decision is made of the very version of the sandbox that it is stored on: what only that says holds at every moment. */
  #admitted(sandbox: Sandbox): void {
    const { name, uid } = sandbox.metadata;
    const reason = reasonOf(sandbox) ?? 'nothing';
    const comesBack = isWanted(sandbox) && (reason === SandboxReason.quota || reason === SandboxReason.idle);
    if (!isNewcomer(sandbox) && !comesBack)
      throw new Violation('only who asks or is to come back is let in', `${name}, replicas ${sandbox.spec.replicas}, after ${reason}`);
    if (!this.#calm) return;
    const recently = this.#recently();
    if (!isNewcomer(sandbox)) {
      if (recently.every(({ newcomers }) => newcomers > 0)) throw new Violation('newcomers come first', `${name} comes back before them`);
      if (recently.every(({ rules }) => rules.some(({ autoResume }) => autoResume === 'Never')))
        throw new Violation('what is not to come back stays paused', name);
      return;
    }
    const since = this.#askedAt.get(uid) ?? this.#now;
    for (const [other, otherSince] of this.#waitingSince) {
      // Times of creation are in whole seconds.
      if (otherSince >= this.#calmSince && otherSince < since - unknownMs - 1_000)
        throw new Violation('first come, first served', `${name} waited ${this.#now - since} ms, ${other} ${this.#now - otherSince} ms`);
    }
  }

  #paused(sandbox: Sandbox): void {
    const { name, uid } = sandbox.metadata;
    const starts = this.#starting(sandbox);
    if (starts !== undefined) throw new Violation('what still starts is not paused for others', `${name}: ${starts}`);
    if (!this.#calm) return;
    const recently = this.#recently();
    const needed = recently.some(({ holding, newcomers }) =>
      recently.some(({ rules }) => rules.some((rule) => holding + (makesRoom(rule) ? newcomers : 0) > rule.limit)),
    );
    if (!needed) throw new Violation('nobody is paused without need', `${name}: ${JSON.stringify(recently)}`);
    const since = this.#runningSince.get(uid) ?? this.#now;
    const least = Math.min(...recently.flatMap(({ rules }) => rules.map(({ minActiveMs }) => minActiveMs)));
    if (since >= this.#calmSince && this.#now - since < least - unknownMs)
      throw new Violation('nobody is paused before its time', `${name} after ${this.#now - since} of ${least} ms`);
    this.#oldest(sandbox, recently);
    // Who is paused comes back when no newcomer waits. So to be paused again takes another newcomer, or a lower limit.
    const pauses = (this.#pauses.get(uid) ?? 0) + 1;
    this.#pauses.set(uid, pauses);
    if (pauses > 1) throw new Violation('no ping-pong', `${name} is paused a second time, and nobody has asked for anything`);
  }

  #oldest(sandbox: Sandbox, recently: readonly Moment[]): void {
    if (recently.some(({ rules }) => rules.some(({ onExceeded }) => onExceeded === 'PauseLongestIdle'))) return;
    const age = activeSince(sandbox);
    const older = this.#options.cluster.sandboxes.find((other) => {
      const since = this.#settledSince.get(other.metadata.uid) ?? Infinity;
      return this.#now - since > unknownMs && activeSince(other) < age && other.metadata.uid !== sandbox.metadata.uid;
    });
    if (older !== undefined) throw new Violation('the oldest is paused first', `${sandbox.metadata.name} before ${older.metadata.name}`);
  }

  /** It may be paused for others, whatever an operator knows of its conversations. */
  #isSettled(sandbox: Sandbox): boolean {
    if (!isWanted(sandbox) || !isAdmitted(sandbox) || this.#starting(sandbox) !== undefined) return false;
    return this.#options.cluster.conversations.every(
      (conversation) =>
        conversation.status?.sandboxName !== sandbox.metadata.name ||
        (isStartOver(startStatusOf(conversation)) && conversation.status.executionStatus !== 'waiting_for_confirmation'),
    );
  }

  /** Why it has not started yet, if so. */
  #starting(sandbox: Sandbox): string | undefined {
    const { status, metadata } = sandbox;
    if (!isTrue(status?.conditions, SandboxCondition.ready) || status?.activeSince === undefined) return 'it is not ready';
    const starting = this.#options.cluster.conversations.find((conversation) => {
      if (isStartOver(startStatusOf(conversation))) return false;
      const { uid } = conversation.metadata;
      if (metadata.ownerReferences?.some((owner) => owner.uid === uid) === true) return true;
      const joinedAt = this.#joinedAt.get(uid) ?? Infinity;
      return conversation.status?.sandboxName === metadata.name && this.#calm && this.#now - joinedAt > unknownMs;
    });
    return starting === undefined ? undefined : `the start of ${starting.metadata.name} is ${startStatusOf(starting)}`;
  }
}

const admittedOf = ({ status }: Sandbox) => findCondition(status?.conditions, SandboxCondition.admitted);
const isAdmitted = (sandbox: Sandbox): boolean => admittedOf(sandbox)?.status === 'True';
const reasonOf = (sandbox: Sandbox): string | undefined => admittedOf(sandbox)?.reason;
const activeSince = ({ status }: Sandbox): number => Date.parse(status?.activeSince ?? '');
const makesRoom = ({ onExceeded }: QuotaRule): boolean => onExceeded.startsWith('Pause');

/** Its owner wants it, and it can run. */
const isWanted = ({ metadata, spec, status }: Sandbox): boolean =>
  metadata.deletionTimestamp === undefined && spec.replicas === 1 && !isTrue(status?.conditions, SandboxCondition.failed);

/** Somebody wants it to run that is not let in. */
function isAskedFor(sandbox: Sandbox): boolean {
  if (!isWanted(sandbox) || isAdmitted(sandbox)) return false;
  const { metadata, status } = sandbox;
  const admitted = admittedOf(sandbox);
  const requested =
    metadata.annotations?.[resumeRequestedAnnotation] !== status?.resumeRequestSeen ||
    metadata.generation > (admitted?.observedGeneration ?? 0);
  return admitted === undefined || !isPausingReason(admitted.reason) || requested;
}

const isNewcomer = (sandbox: Sandbox): boolean => isAskedFor(sandbox) && !slotTaken(sandbox);
