import { inspect } from 'node:util';
import { findCondition, isTrue } from '../../src/resources/conditions.ts';
import { conversations, isStartOver, startStatusOf, type Conversation } from '../../src/resources/conversation.ts';
import { conversationQuotas } from '../../src/resources/conversation-quota.ts';
import { pods } from '../../src/resources/core.ts';
import { ownerRule, quotaRules, type QuotaRule, type QuotaRules } from '../../src/resources/quota-rules.ts';
import {
  SandboxCondition,
  SandboxReason,
  isPausingReason,
  ownerAnnotation,
  resumeRequestedAnnotation,
  sandboxes,
  slotTaken,
  type Sandbox,
} from '../../src/resources/sandbox.ts';
import type { Change, Cluster } from './cluster.ts';
import { isKnown } from './known-failures.ts';
import { Violation, ownerOf } from './safety.ts';
import type { Scheduler } from './scheduler.ts';

export interface VerdictsOptions {
  readonly cluster: Cluster;
  readonly scheduler: Scheduler;
  /** Whether the actor is a run of an operator. */
  readonly isOperator: (actor: string) => boolean;
  /** Orders and ages are told by wall clocks. */
  readonly clocksAreRight: () => boolean;
}

/** What was true from `at` on, until the next. */
interface Moment {
  readonly at: number;
  readonly owners: ReadonlyMap<string, Share>;
  readonly rules: QuotaRules;
}

/** What one owner has of the slots. */
interface Share {
  /** Sandboxes that are let in and meant to run. */
  holding: number;
  /** Slots that count, also those of sandboxes on their way out. */
  taken: number;
  newcomers: number;
}

const noShare: Share = { holding: 0, taken: 0, newcomers: 0 };
const noRules: QuotaRules = { namespace: undefined, everyOwner: undefined, owners: new Map(), conflicts: new Map() };

/** So old may be what an operator knows when nothing goes wrong. */
const unknownMs = 1_000;

/** The promises that hold for each single decision about who is let in and who is paused for others. */
export class Verdicts {
  readonly #options: VerdictsOptions;
  #moments: readonly Moment[] = [];
  #rules = noRules;
  #calmSince = Infinity;
  /** Of newcomers: since when they wait. */
  readonly #waitingSince = new Map<string, { readonly owner: string; readonly since: number }>();
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

  /** Whether every limit has room for a newcomer of this owner. */
  hasRoom(owner: string): boolean {
    const moment = this.#moments.at(-1);
    if (moment === undefined) return true;
    const taken = [...moment.owners.values()].reduce((sum, share) => sum + share.taken, 0);
    return hasRoom(moment, owner) && taken < (moment.rules.namespace?.limit ?? Infinity);
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
      this.#rules = quotaRules(this.#options.cluster.quotas);
      if (!this.#options.isOperator(change.actor)) this.#pauses.clear();
      this.#remember();
    }
    if (change.plural === pods.plural && change.type === 'DELETED') this.#remember();
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
    const owners = new Map<string, Share>();
    for (const sandbox of this.#options.cluster.sandboxes) {
      const share = owners.get(sandbox.spec.owner) ?? { ...noShare };
      owners.set(sandbox.spec.owner, share);
      if (isWanted(sandbox) && isAdmitted(sandbox)) share.holding++;
      if (slotTaken(sandbox)) share.taken++;
      if (isNewcomer(sandbox)) share.newcomers++;
    }
    for (const pod of this.#options.cluster.pods) {
      if (this.#options.cluster.sandboxOf(ownerOf(pod) ?? '') !== undefined) continue;
      const owner = pod.metadata.annotations?.[ownerAnnotation] ?? '';
      const share = owners.get(owner) ?? { ...noShare };
      owners.set(owner, share);
      share.taken++;
    }
    this.#moments = [...this.#recently(), { at: this.#now, owners, rules: this.#rules }];
  }

  /** Everything of which an operator may think that it is true. */
  #recently(): readonly Moment[] {
    return this.#moments.filter((_, index) => this.#now - (this.#moments[index + 1]?.at ?? this.#now) <= unknownMs);
  }

  #follow(sandbox: Sandbox, gone: boolean): void {
    const { uid } = sandbox.metadata;
    const { waitingSince, activeSince } = sandbox.status ?? {};
    if (gone || !isNewcomer(sandbox)) this.#waitingSince.delete(uid);
    else if (!this.#waitingSince.has(uid)) this.#waitingSince.set(uid, { owner: sandbox.spec.owner, since: this.#now });
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
    const { owner } = sandbox.spec;
    if (!isNewcomer(sandbox)) {
      if (recently.every((moment) => isForNewcomers(moment, owner)))
        throw new Violation('newcomers come first', `${name} comes back before them`);
      if (recently.every(({ rules }) => rulesFor(rules, owner).some(({ autoResume }) => autoResume === 'Never')))
        throw new Violation('what is not to come back stays paused', name);
      return;
    }
    if (!this.#options.clocksAreRight()) return;
    const since = this.#askedAt.get(uid) ?? this.#now;
    const requestedAt = Date.parse(sandbox.metadata.annotations?.[resumeRequestedAnnotation] ?? '');
    const isStale = this.#options.scheduler.now() - requestedAt > this.#now - since + 1_000;
    if (isStale && isKnown('an old request keeps its place')) return;
    for (const [other, { owner: whose, since: otherSince }] of this.#waitingSince) {
      // Times of creation are in whole seconds.
      if (otherSince < this.#calmSince || otherSince >= since - unknownMs - 1_000) continue;
      // One that its owner's own limit keeps out is not in the same queue.
      if (whose !== owner && !recently.every((moment) => hasRoom(moment, whose))) continue;
      throw new Violation('first come, first served', `${name} waited ${this.#now - since} ms, ${other} ${this.#now - otherSince} ms`);
    }
  }

  #paused(sandbox: Sandbox): void {
    const { name, uid } = sandbox.metadata;
    const starts = this.#starting(sandbox);
    if (starts !== undefined) throw new Violation('what still starts is not paused for others', `${name}: ${starts}`);
    if (!this.#calm) return;
    const recently = this.#recently();
    const { owner } = sandbox.spec;
    const crowded = recently.some((moment) => recently.some(({ rules }) => isOwnerCrowded(moment, rules, owner)));
    const full = recently.some((moment) => recently.some(({ rules }) => isNamespaceCrowded(moment, rules)));
    if (!crowded && !full) throw new Violation('nobody is paused without need', `${name}: ${inspect(recently, { depth: 5 })}`);
    const since = this.#runningSince.get(uid) ?? this.#now;
    const least = Math.min(...recently.flatMap(({ rules }) => rulesFor(rules, owner).map(({ minActiveMs }) => minActiveMs)));
    const clocksAreRight = this.#options.clocksAreRight();
    if (clocksAreRight && since >= this.#calmSince && this.#now - since < least - unknownMs)
      throw new Violation('nobody is paused before its time', `${name} after ${this.#now - since} of ${least} ms`);
    if (clocksAreRight) this.#oldest(sandbox, recently, full ? undefined : owner);
    // Who is paused comes back when no newcomer waits. So to be paused again takes another newcomer, or a lower limit.
    const pauses = (this.#pauses.get(uid) ?? 0) + 1;
    this.#pauses.set(uid, pauses);
    if (pauses > 1) throw new Violation('no ping-pong', `${name} is paused a second time, and nobody has asked for anything`);
  }

  /** Of those of one owner, or of all. Where both their owner and the namespace are short of room, the owner's own go first. */
  #oldest(sandbox: Sandbox, recently: readonly Moment[], owner: string | undefined): void {
    const rules = recently.flatMap((moment) => rulesFor(moment.rules, sandbox.spec.owner));
    if (rules.some(({ onExceeded }) => onExceeded === 'PauseLongestIdle')) return;
    const age = activeSince(sandbox);
    const isOlder = (other: Sandbox) => {
      const since = this.#settledSince.get(other.metadata.uid) ?? Infinity;
      return this.#now - since > unknownMs && activeSince(other) < age && other.metadata.uid !== sandbox.metadata.uid;
    };
    const own = this.#options.cluster.sandboxes.find((other) => other.spec.owner === sandbox.spec.owner && isOlder(other));
    const any = owner === undefined ? this.#options.cluster.sandboxes.find(isOlder) : undefined;
    const older = owner === undefined ? own && any : own;
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

const rulesFor = (rules: QuotaRules, owner: string): readonly QuotaRule[] =>
  [ownerRule(rules, owner), rules.namespace].filter((rule) => rule !== undefined);
const limitOf = (rules: QuotaRules, owner: string): number => ownerRule(rules, owner)?.limit ?? Infinity;

/** The newcomers of all owners that only the namespace's limit may keep out. */
const demandOf = ({ owners }: Moment, rules: QuotaRules): number =>
  [...owners].reduce((sum, [owner, { newcomers, holding }]) => sum + Math.min(newcomers, Math.max(0, limitOf(rules, owner) - holding)), 0);
const holdingOf = ({ owners }: Moment): number => [...owners.values()].reduce((sum, { holding }) => sum + holding, 0);

const hasRoom = (moment: Moment, owner: string): boolean => (moment.owners.get(owner) ?? noShare).taken < limitOf(moment.rules, owner);

/** Whether what is free belongs to newcomers: to one of the same owner, or to those that wait for the namespace alone. */
function isForNewcomers(moment: Moment, owner: string): boolean {
  if ((moment.owners.get(owner) ?? noShare).newcomers > 0) return true;
  const demand = demandOf(moment, moment.rules);
  return demand > 0 && holdingOf(moment) + demand >= (moment.rules.namespace?.limit ?? Infinity);
}

function isOwnerCrowded({ owners }: Moment, rules: QuotaRules, owner: string): boolean {
  const rule = ownerRule(rules, owner);
  const { holding, newcomers } = owners.get(owner) ?? noShare;
  return rule !== undefined && holding + (makesRoom(rule) ? newcomers : 0) > rule.limit;
}

function isNamespaceCrowded(moment: Moment, rules: QuotaRules): boolean {
  const { namespace } = rules;
  return namespace !== undefined && holdingOf(moment) + (makesRoom(namespace) ? demandOf(moment, rules) : 0) > namespace.limit;
}

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

export const isNewcomer = (sandbox: Sandbox): boolean => isAskedFor(sandbox) && !slotTaken(sandbox);
