import { inspect } from 'node:util';
import { findCondition, isTrue } from '../../src/resources/conditions.ts';
import {
  conversations,
  isStartOver,
  startStatusOf,
  undeliveredMessages,
  type Conversation,
} from '../../src/resources/conversation.ts';
import { conversationQuotas } from '../../src/resources/conversation-quota.ts';
import { pods } from '@conversation-operator/kube/core';
import { ownerRule, quotaRules, type QuotaRule, type QuotaRules } from '../../src/quota/rules.ts';
import {
  SandboxCondition,
  SandboxReason,
  isRunRequested,
  resumeRequestedAnnotation,
  runRequestedAnnotation,
  sandboxes,
  type Sandbox,
} from '../../src/resources/sandbox.ts';
import { isPausingReason, slotTaken } from '../../src/status/sandbox-phase.ts';
import { durationMs } from '../../src/resources/sandbox-template.ts';
import type { Change, Cluster } from './cluster.ts';
import { isFailedStart } from './failed-start.ts';
import { isIn, isMadeFor, conversationReferences } from './made-for.ts';
import { holdsOnMs } from './quotas.ts';
import { Violation, ownerOf } from './safety.ts';
import type { Scheduler } from './scheduler.ts';
import { isToBeAnswered, isUnfinished, works } from './stored-work.ts';

export interface AdmissionCheckOptions {
  readonly cluster: Cluster;
  readonly scheduler: Scheduler;
  readonly isOperator: (actor: string) => boolean;
  /** Whether wall clocks are right: order and age are differences of the times that they show. */
  readonly clocksAreRight: () => boolean;
  /** `startDeadline` of the template. */
  readonly startDeadline: string;
}

/** State that held from `at` on, until the next moment. */
interface Moment {
  readonly at: number;
  readonly owners: ReadonlyMap<string, Share>;
  readonly rules: QuotaRules;
}

/** Slots and newcomers of one owner. */
interface Share {
  /** The number of sandboxes that are admitted and meant to run. */
  holding: number;
  /** Slots that count, also those of sandboxes on their way out. */
  taken: number;
  newcomers: number;
  /** The number of newcomers that were requested with something to do. */
  demanding: number;
}

interface Comebacks {
  readonly count: number;
  /** Time of the last automatic resume. */
  readonly at: number;
}

/**
 * The sandbox resumed automatically before the calm: its delay is not checked, and the order of
 * evictions does not depend on it.
 */
const beforeCalm: Comebacks = { count: 0, at: Infinity };

const noShare: Share = { holding: 0, taken: 0, newcomers: 0, demanding: 0 };
const noRules: QuotaRules = {
  namespace: undefined,
  everyOwner: undefined,
  owners: new Map(),
  conflicts: new Map(),
};

/** Maximum age of the knowledge of an operator when nothing goes wrong. */
const unknownMs = 1_000;
/**
 * Grace of a sandbox whose agent is lost. One that comes back, or in which something starts, has
 * the template's startDeadline.
 */
const lostMs = 30_000;

/** Checks each decision of the admission: whether a sandbox is admitted, and which is evicted. */
export class AdmissionCheck {
  readonly #options: AdmissionCheckOptions;
  #moments: readonly Moment[] = [];
  #rules = noRules;
  #calmSince = Infinity;
  /** By the UID of a newcomer: the time since which it waits. */
  readonly #waitingSince = new Map<string, { readonly owner: string; readonly since: number }>();
  /**
   * By the UID of a sandbox: the time since which it is requested, also while its old pod still
   * exists. A sandbox that its owner pauses while it waits keeps its place.
   */
  readonly #askedAt = new Map<string, number>();
  readonly #runningSince = new Map<string, number>();
  /** By the UID of a sandbox: the time since which it may be evicted. */
  readonly #settledSince = new Map<string, number>();
  /** By the UID of a conversation: the time since which it is in a sandbox. */
  readonly #joinedAt = new Map<string, number>();
  /** By the UID of a sandbox that has run: the time since which it is admitted without an agent. */
  readonly #unreadySince = new Map<string, number>();
  /** By the UID of a sandbox: since when its agent works, or will, by the stored status. */
  readonly #workingSince = new Map<string, number>();
  /** By the UID of a sandbox: since when its agent has nothing to do. */
  readonly #idleSince = new Map<string, number>();
  readonly #hasRun = new Set<string>();
  /** By the UID: its automatic resumes since a person last requested it, or something in it. */
  readonly #comebacks = new Map<string, Comebacks>();
  /** By the UID of a sandbox: the number of its evictions since the last request of a person. */
  readonly #pauses = new Map<string, number>();

  constructor(options: AdmissionCheckOptions) {
    this.#options = options;
    options.cluster.onChange((change) => this.#observe(change));
  }

  /** From now on no fault occurs, and operators decide by a state at most a moment old. */
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

  /**
   * Whether nothing goes wrong, and every limit had room for this many starts beside one of an
   * owner, by everything of which an operator may have thought that it is true before the present
   * write. Warm sandboxes are room.
   */
  surelyHasRoomFor(owner: string, others: number): boolean {
    return (
      this.#calm &&
      this.#recently(unknownMs + holdsOnMs).every((moment) => {
        if (moment.at === this.#now) return true;
        const shares = [...moment.owners].filter(([name]) => name !== '').map(([, share]) => share);
        const newcomers = shares.reduce((sum, share) => sum + share.newcomers, 0);
        const held = shares.reduce((sum, { holding }) => sum + holding, 0);
        const limit = moment.rules.namespace?.limit ?? Infinity;
        return newcomers === 0 && hasRoom(moment, owner) && held + others < limit;
      })
    );
  }

  get #now(): number {
    return this.#options.scheduler.monotonic();
  }

  get #calm(): boolean {
    return this.#now - this.#calmSince >= unknownMs;
  }

  #observe(change: Change): void {
    if (change.plural === conversations.plural) {
      const conversation = change.object as Conversation;
      const before =
        change.before?.metadata.uid === conversation.metadata.uid
          ? (change.before as Conversation)
          : undefined;
      this.#join(conversation);
      if (
        isMessageSentSince(before, conversation) ||
        isBegun(conversation) ||
        isDeliveredSince(before, conversation)
      )
        this.#used(conversation);
      this.#remember();
    }
    if (change.plural === conversationQuotas.plural) {
      this.#rules = quotaRules(this.#options.cluster.quotas);
      if (!this.#options.isOperator(change.actor)) this.#pauses.clear();
      this.#remember();
    }
    if (change.plural === pods.plural && change.type === 'DELETED') this.#remember();
    if (change.plural === sandboxes.plural) {
      const sandbox = change.object as Sandbox;
      const before =
        change.before?.metadata.uid === sandbox.metadata.uid
          ? (change.before as Sandbox)
          : undefined;
      // No decision on a warm sandbox concerns an owner.
      if (sandbox.spec.owner === '') {
        this.#remember();
        return;
      }
      if (change.type === 'MODIFIED' && before !== undefined) this.#decided(sandbox, before);
      // A request by users, also by an answer, or a sandbox made for a conversation.
      const isAsked = before === undefined || isAskedSince(before, sandbox);
      if (isAsked || !this.#options.isOperator(change.actor)) this.#pauses.clear();
      if (isAsked) this.#comebacks.delete(sandbox.metadata.uid);
      this.#follow(sandbox, change.type === 'DELETED');
      this.#remember();
    }
    for (const sandbox of this.#options.cluster.sandboxes) {
      this.#note(this.#settledSince, sandbox.metadata.uid, this.#isSettled(sandbox));
      const isWorking = this.#conversationsIn(sandbox).some(works);
      this.#note(this.#workingSince, sandbox.metadata.uid, isWorking);
      this.#note(this.#idleSince, sandbox.metadata.uid, !isWorking);
    }
  }

  /** A person has asked for something in the sandbox of a conversation. */
  #used(conversation: Conversation): void {
    for (const { metadata } of this.#options.cluster.sandboxes)
      if ([conversation.spec.sandboxName, conversation.status?.sandboxName].includes(metadata.name))
        this.#comebacks.delete(metadata.uid);
  }

  #remember(): void {
    const owners = new Map<string, Share>();
    const { sandboxes: owned, warmSandboxes } = this.#options.cluster;
    for (const sandbox of [...owned, ...warmSandboxes]) {
      const share = owners.get(sandbox.spec.owner) ?? { ...noShare };
      owners.set(sandbox.spec.owner, share);
      if (isWanted(sandbox) && isAdmitted(sandbox)) share.holding++;
      if (slotTaken(sandbox)) share.taken++;
      if (sandbox.spec.owner === '') continue;
      if (!this.isNewcomer(sandbox)) continue;
      share.newcomers++;
      if (!this.#isBare(sandbox)) share.demanding++;
    }
    for (const pod of this.#options.cluster.pods) {
      if (this.#options.cluster.sandboxOf(ownerOf(pod) ?? '') !== undefined) continue;
      const owner = this.#options.cluster.ownerOfPod(pod);
      const share = owners.get(owner) ?? { ...noShare };
      owners.set(owner, share);
      share.taken++;
    }
    this.#moments = [
      ...this.#recently(unknownMs + holdsOnMs),
      { at: this.#now, owners, rules: this.#rules },
    ];
  }

  /** The states that an operator may take for the present one. */
  #recently(withinMs = unknownMs): readonly Moment[] {
    return this.#moments.filter(
      (_, index) => this.#now - (this.#moments[index + 1]?.at ?? this.#now) <= withinMs,
    );
  }

  /** Whether no limit of an owner is reached, also not by a quota that has just been deleted. */
  #surelyHasRoom(owner: string): boolean {
    return this.#recently(unknownMs + holdsOnMs).every((moment) => hasRoom(moment, owner));
  }

  /** The rules of a quota that is gone may hold on for a moment. */
  get #recentRules(): readonly QuotaRules[] {
    return this.#recently(unknownMs + holdsOnMs).map(({ rules }) => rules);
  }

  #conversationsIn(sandbox: Sandbox): readonly Conversation[] {
    return this.#options.cluster.conversations.filter(
      (conversation) =>
        (isIn(sandbox, conversation) && conversation.spec.owner === sandbox.spec.owner) ||
        isMadeFor(sandbox, conversation),
    );
  }

  /**
   * Whether the resume is bare: nothing starts in the sandbox, and no message and no run waits for
   * it. A sandbox of a deleted conversation counts as well.
   */
  #isBare(sandbox: Sandbox): boolean {
    const { uid } = sandbox.metadata;
    const referenced = conversationReferences(this.#options.cluster.conversations, sandbox);
    const inIt = this.#conversationsIn(sandbox).filter(
      ({ metadata }) => metadata.deletionTimestamp === undefined,
    );
    const isOrphaned =
      referenced.length > 0 &&
      !referenced.some((issuer) => inIt.some(({ metadata }) => metadata.uid === issuer.uid));
    const isAsked = inIt.some(
      (conversation) =>
        !isStartOver(startStatusOf(conversation)) ||
        undeliveredMessages(conversation).length > 0 ||
        isToBeAnswered(conversation),
    );
    return (
      (isOrphaned || this.#hasRun.has(uid)) &&
      !isAsked &&
      !(isRunRequested(sandbox) && inIt.length > 0)
    );
  }

  isNewcomer(sandbox: Sandbox): boolean {
    return (
      !isFailedStart(this.#options.cluster, sandbox) && isAskedFor(sandbox) && !slotTaken(sandbox)
    );
  }

  #follow(sandbox: Sandbox, gone: boolean): void {
    const { uid } = sandbox.metadata;
    const { waitingSinceTime: waitingSince, activeSinceTime: activeSince } = sandbox.status ?? {};
    if (gone || !this.isNewcomer(sandbox)) this.#waitingSince.delete(uid);
    else if (!this.#waitingSince.has(uid))
      this.#waitingSince.set(uid, { owner: sandbox.spec.owner, since: this.#now });
    this.#note(this.#askedAt, uid, !gone && (isAskedFor(sandbox) || waitingSince !== undefined));
    this.#note(this.#runningSince, uid, !gone && activeSince !== undefined);
    if (activeSince !== undefined) this.#hasRun.add(uid);
    const unready =
      isWanted(sandbox) &&
      isAdmitted(sandbox) &&
      !isTrue(sandbox.status?.conditions, SandboxCondition.ready);
    this.#note(this.#unreadySince, uid, !gone && unready && this.#hasRun.has(uid));
  }

  #note(times: Map<string, number>, uid: string, isSo: boolean): void {
    if (!isSo) times.delete(uid);
    else if (!times.has(uid)) times.set(uid, this.#now);
  }

  #join({ metadata: { uid }, status }: Conversation): void {
    if (status?.sandboxName !== undefined && !this.#joinedAt.has(uid))
      this.#joinedAt.set(uid, this.#now);
  }

  #decided(sandbox: Sandbox, before: Sandbox): void {
    if (isAdmitted(sandbox) && !isAdmitted(before)) this.#admitted(before);
    if (!isAdmitted(sandbox) && isAdmitted(before) && reasonOf(sandbox) === SandboxReason.quota)
      this.#paused(before);
  }

  /** An admission is decided on the very version that it is stored on, so what that says holds. */
  #admitted(sandbox: Sandbox): void {
    const { name, uid } = sandbox.metadata;
    const reason = reasonOf(sandbox) ?? 'nothing';
    const comesBack =
      isWanted(sandbox) && (reason === SandboxReason.quota || reason === SandboxReason.idle);
    const isNewcomer = isAskedFor(sandbox) && !slotTaken(sandbox);
    if (!isNewcomer && !comesBack)
      throw new Violation(
        'a sandbox is admitted only on a request or by an automatic resume',
        `${name}, replicas ${sandbox.spec.replicas}, after ${reason}`,
      );
    if (!this.#calm) {
      if (!isNewcomer) this.#comebacks.set(uid, beforeCalm);
      return;
    }
    const recently = this.#recently();
    const { owner } = sandbox.spec;
    if (!isNewcomer) {
      if (recently.every((moment) => isForNewcomers(moment, owner)))
        throw new Violation('newcomers come first', `${name} comes back before them`);
      if (
        recently.every(({ rules }) =>
          rulesFor(rules, owner).some(({ autoResume }) => autoResume === 'Never'),
        )
      )
        throw new Violation('a sandbox that must not resume stays paused', name);
      this.#cameBack(sandbox);
      return;
    }
    if (!this.#options.clocksAreRight()) return;
    const since = this.#askedAt.get(uid) ?? this.#now;
    const bare = this.#isBare(sandbox);
    for (const [other, { owner: whose, since: otherSince }] of this.#waitingSince) {
      const waiting = this.#options.cluster.sandboxOf(other);
      if (!bare && waiting !== undefined && this.#isBare(waiting)) continue;
      // Times of creation are in whole seconds.
      if (otherSince < this.#calmSince || otherSince >= since - unknownMs - 1_000) continue;
      // One that its owner's own limit keeps out is not in the same queue.
      if (whose !== owner && !this.#surelyHasRoom(whose)) continue;
      const message = `${name} waited ${this.#now - since} ms, ${other} ${this.#now - otherSince} ms`;
      this.#mustBeServed(other, otherSince, whose === owner ? undefined : whose, message);
    }
  }

  /**
   * Throws unless a newcomer that comes before an admitted one is admitted at the same time: writes
   * of admissions are in flight together, and the API server executes them in any order. `whose`:
   * another owner, whose own limit may be reached by one of these writes.
   */
  #mustBeServed(uid: string, since: number, whose: string | undefined, message: string): void {
    this.#options.scheduler.after(unknownMs, () => {
      if (!this.#calm || this.#waitingSince.get(uid)?.since !== since) return;
      if (whose === undefined || this.#surelyHasRoom(whose))
        throw new Violation('first come, first served', message);
    });
  }

  #paused(sandbox: Sandbox): void {
    const { name, uid } = sandbox.metadata;
    const starts = this.#starting(sandbox);
    const stalled = this.#isStalled(sandbox);
    if (starts !== undefined && !stalled)
      throw new Violation('a sandbox that still starts is not evicted', `${name}: ${starts}`);
    if (!this.#calm) return;
    const recently = this.#recently();
    const { owner } = sandbox.spec;
    const rules = this.#recentRules;
    const isCrowded = (by: Waiting) =>
      recently.some((moment) => rules.some((one) => isOwnerCrowded(moment, one, owner, by)));
    const isFull = (by: Waiting) =>
      recently.some((moment) => rules.some((one) => isNamespaceCrowded(moment, one, by)));
    if (!isCrowded('newcomers') && !isFull('newcomers'))
      throw new Violation(
        'no sandbox is evicted without need',
        `${name}: ${inspect(recently, { depth: 5 })}`,
      );
    const forWork = isCrowded('demanding') || isFull('demanding');
    if (!forWork && this.#now - (this.#workingSince.get(uid) ?? this.#now) > unknownMs)
      throw new Violation('a bare resume evicts no agent that works', name);
    const since = this.#runningSince.get(uid) ?? this.#now;
    const least = Math.min(
      ...rules.flatMap((one) => rulesFor(one, owner).map(({ minActiveMs }) => minActiveMs)),
    );
    const clocksAreRight = this.#options.clocksAreRight();
    if (
      !stalled &&
      clocksAreRight &&
      since >= this.#calmSince &&
      this.#now - since < least - unknownMs
    )
      throw new Violation(
        'no sandbox is evicted before its minActiveSeconds',
        `${name} after ${this.#now - since} of ${least} ms`,
      );
    if (!stalled && clocksAreRight && !this.#comebacks.has(uid))
      this.#oldest(sandbox, forWork, isFull('newcomers'));
    // An evicted sandbox resumes when no newcomer waits. A second eviction takes another newcomer,
    // or a lower limit.
    const pauses = (this.#pauses.get(uid) ?? 0) + 1;
    this.#pauses.set(uid, pauses);
    if (pauses > 1)
      throw new Violation(
        'no sandbox is evicted twice without a request in between',
        `${name} is paused a second time, and no person has asked for anything`,
      );
  }

  /** An automatic resume after another one keeps its delay, and needs unfinished work. */
  #cameBack(sandbox: Sandbox): void {
    const { name, uid } = sandbox.metadata;
    // A message that waits is a person's request, whenever it was sent.
    if (
      this.#conversationsIn(sandbox).some(
        (conversation) =>
          undeliveredMessages(conversation).length > 0 || isToBeAnswered(conversation),
      )
    )
      this.#comebacks.delete(uid);
    const { count = 0, at = 0 } = this.#comebacks.get(uid) ?? {};
    this.#comebacks.set(uid, { count: count + 1, at: this.#now });
    // Whether a person has asked since is decided by times that several processes have written.
    if (count === 0 || !this.#options.clocksAreRight()) return;
    const delayMs = Math.min(3_600_000, 60_000 * 2 ** (count - 1));
    if (this.#now - at < delayMs - unknownMs)
      throw new Violation(
        'automatic resumes of a sandbox keep their delay',
        `${name} after ${this.#now - at} of ${delayMs} ms`,
      );
    if (
      !this.#conversationsIn(sandbox).some(isUnfinished) &&
      (sandbox.status?.interruptedConversationIDs ?? []).length === 0
    )
      throw new Violation(
        'a sandbox without unfinished work resumes automatically only once',
        name,
      );
  }

  /**
   * Compares the victim with the other candidates of its owner, or with all of them where the
   * namespace is short of slots. Where both are, the sandboxes of its owner go first.
   */
  #oldest(sandbox: Sandbox, forWork: boolean, isFull: boolean): void {
    const { owner } = sandbox.spec;
    const rules = this.#recentRules.flatMap((one) => rulesFor(one, owner));
    const isSince = (times: ReadonlyMap<string, number>, uid: string) =>
      this.#now - (times.get(uid) ?? Infinity) > unknownMs;
    const others = this.#options.cluster.sandboxes.filter(
      ({ metadata: { uid } }) =>
        uid !== sandbox.metadata.uid &&
        isSince(this.#settledSince, uid) &&
        (forWork || isSince(this.#idleSince, uid)),
    );
    /** A sandbox that should have been evicted before this one. */
    const find = (isBefore: (other: Sandbox) => boolean): Sandbox | undefined => {
      const own = others.find((other) => other.spec.owner === owner && isBefore(other));
      return isFull ? own && others.find(isBefore) : own;
    };
    const longestMs = Math.max(...rules.map(({ minActiveMs }) => minActiveMs));
    const automatic = find(({ metadata: { uid } }) => {
      const isOld = this.#now - (this.#runningSince.get(uid) ?? this.#now) > longestMs + unknownMs;
      return (
        isOld &&
        isSince(this.#idleSince, uid) &&
        this.#now - (this.#comebacks.get(uid)?.at ?? this.#now) > unknownMs
      );
    });
    if (automatic !== undefined)
      this.#mustFollow(
        automatic,
        'an idle sandbox that resumed automatically is evicted first',
        sandbox,
      );
    if (rules.some(({ onExceeded }) => onExceeded === 'PauseLongestIdle')) return;
    const age = activeSince(sandbox);
    const older = find((other) => activeSince(other) < age);
    if (older !== undefined)
      this.#mustFollow(older, 'the oldest sandbox is evicted first', sandbox);
  }

  /**
   * Throws unless a sandbox that comes before an evicted one is evicted at the same time: writes of
   * evictions are in flight together, and the API server executes them in any order.
   */
  #mustFollow(first: Sandbox, rule: string, evicted: Sandbox): void {
    this.#options.scheduler.after(unknownMs, () => {
      const sandbox = this.#options.cluster.sandboxOf(first.metadata.uid);
      if (sandbox !== undefined && isAdmitted(sandbox))
        throw new Violation(rule, `${evicted.metadata.name} before ${first.metadata.name}`);
    });
  }

  /** Whether the sandbox may be evicted, whatever an operator knows of its conversations. */
  #isSettled(sandbox: Sandbox): boolean {
    if (!isWanted(sandbox) || !isAdmitted(sandbox) || this.#starting(sandbox) !== undefined)
      return false;
    return this.#options.cluster.conversations.every(
      (conversation) =>
        conversation.status?.sandboxName !== sandbox.metadata.name ||
        (isStartOver(startStatusOf(conversation)) &&
          conversation.status.executionStatus !== 'waiting_for_confirmation'),
    );
  }

  /** Whether the sandbox has run, and its agent was unusable so long that it is evicted first. */
  #isStalled(sandbox: Sandbox): boolean {
    const { uid } = sandbox.metadata;
    const since = this.#unreadySince.get(uid);
    if (since === undefined) return false;
    const starts = this.#conversationsIn(sandbox).some(
      (conversation) => !isStartOver(startStatusOf(conversation)),
    );
    const graceMs =
      starts || sandbox.status?.activeSinceTime === undefined
        ? durationMs(this.#options.startDeadline)
        : lostMs;
    // A new leader whose clock is ahead takes a sandbox that became unready a moment ago for one
    // that has been so for long.
    return (
      !this.#options.clocksAreRight() ||
      !this.#calm ||
      since < this.#calmSince ||
      this.#now - since >= graceMs - unknownMs
    );
  }

  /** Why the sandbox has not started yet; undefined: it has. */
  #starting(sandbox: Sandbox): string | undefined {
    const { status, metadata } = sandbox;
    if (
      !isTrue(status?.conditions, SandboxCondition.ready) ||
      status?.activeSinceTime === undefined
    )
      return 'it is not ready';
    const starting = this.#options.cluster.conversations.find((conversation) => {
      if (isStartOver(startStatusOf(conversation))) return false;
      if (isMadeFor(sandbox, conversation)) return true;
      const { uid } = conversation.metadata;
      const joinedAt = this.#joinedAt.get(uid) ?? Infinity;
      return (
        conversation.status?.sandboxName === metadata.name &&
        this.#calm &&
        this.#now - joinedAt > unknownMs
      );
    });
    return starting === undefined
      ? undefined
      : `the start of ${starting.metadata.name} is ${startStatusOf(starting)}`;
  }
}

/** Whether the start is under way, or a run that was not interrupted: a person has asked for it. */
const isBegun = (conversation: Conversation): boolean => {
  const { executionStatus, interruption } = conversation.status ?? {};
  return (
    !isStartOver(startStatusOf(conversation)) ||
    (executionStatus === 'running' && interruption === undefined)
  );
};
/** Whether a message or an answer was sent since `before`; other changes do not count. */
const isMessageSentSince = (before: Conversation | undefined, { spec }: Conversation): boolean =>
  (spec.messages?.at(-1)?.number ?? 0) > (before?.spec.messages?.at(-1)?.number ?? 0) ||
  spec.approvals?.at(-1)?.id !== before?.spec.approvals?.at(-1)?.id;
/**
 * Whether a person paused the sandbox or asked for it since the version `before`. Another
 * annotation asks for nothing.
 */
const isAskedSince = (before: Sandbox, { metadata, spec }: Sandbox): boolean =>
  spec.replicas !== before.spec.replicas ||
  [resumeRequestedAnnotation, runRequestedAnnotation].some(
    (name) => metadata.annotations?.[name] !== before.metadata.annotations?.[name],
  );
/**
 * Whether a message that asks for a run has reached the agent since the version `before`. Its
 * person sent it earlier, possibly before the automatic resume of the sandbox, and the agent works
 * for that person from the delivery on. An interrupted run that resumes as well would hide that.
 */
function isDeliveredSince(before: Conversation | undefined, conversation: Conversation): boolean {
  if (before === undefined) return false;
  const undelivered = new Set(undeliveredMessages(conversation).map(({ number }) => number));
  return undeliveredMessages(before).some(({ number, run }) => run && !undelivered.has(number));
}
const admittedOf = ({ status }: Sandbox) =>
  findCondition(status?.conditions, SandboxCondition.admitted);
const isAdmitted = (sandbox: Sandbox): boolean => admittedOf(sandbox)?.status === 'True';
const reasonOf = (sandbox: Sandbox): string | undefined => admittedOf(sandbox)?.reason;
const activeSince = ({ status }: Sandbox): number => Date.parse(status?.activeSinceTime ?? '');
const makesRoom = ({ onExceeded }: QuotaRule): boolean => onExceeded.startsWith('Pause');

const rulesFor = (rules: QuotaRules, owner: string): readonly QuotaRule[] =>
  [ownerRule(rules, owner), rules.namespace].filter((rule) => rule !== undefined);
const limitOf = (rules: QuotaRules, owner: string): number =>
  ownerRule(rules, owner)?.limit ?? Infinity;

/** All newcomers, or those of them that have something to do. */
type Waiting = 'newcomers' | 'demanding';

/** The newcomers of all owners that only the namespace's limit may keep out. */
const demandOf = ({ owners }: Moment, rules: QuotaRules, by: Waiting = 'newcomers'): number =>
  [...owners].reduce(
    (sum, [owner, share]) =>
      sum + Math.min(share[by], Math.max(0, limitOf(rules, owner) - share.holding)),
    0,
  );
const holdingOf = ({ owners }: Moment): number =>
  [...owners.values()].reduce((sum, { holding }) => sum + holding, 0);

const hasRoom = (moment: Moment, owner: string): boolean =>
  (moment.owners.get(owner) ?? noShare).taken < limitOf(moment.rules, owner);

/** Whether free slots belong to newcomers of the same owner, or waiting for the namespace alone. */
function isForNewcomers(moment: Moment, owner: string): boolean {
  if ((moment.owners.get(owner) ?? noShare).newcomers > 0) return true;
  const demand = demandOf(moment, moment.rules);
  return demand > 0 && holdingOf(moment) + demand >= (moment.rules.namespace?.limit ?? Infinity);
}

function isOwnerCrowded(
  { owners }: Moment,
  rules: QuotaRules,
  owner: string,
  by: Waiting,
): boolean {
  const rule = ownerRule(rules, owner);
  const share = owners.get(owner) ?? noShare;
  return rule !== undefined && share.holding + (makesRoom(rule) ? share[by] : 0) > rule.limit;
}

function isNamespaceCrowded(moment: Moment, rules: QuotaRules, by: Waiting): boolean {
  const { namespace } = rules;
  return (
    namespace !== undefined &&
    holdingOf(moment) + (makesRoom(namespace) ? demandOf(moment, rules, by) : 0) > namespace.limit
  );
}

/** Whether the owner wants the sandbox to run, and the sandbox can. */
const isWanted = ({ metadata, spec, status }: Sandbox): boolean =>
  metadata.deletionTimestamp === undefined &&
  spec.replicas === 1 &&
  !isTrue(status?.conditions, SandboxCondition.failed);

/** Whether a person wants the sandbox to run, and it is not admitted. */
function isAskedFor(sandbox: Sandbox): boolean {
  if (!isWanted(sandbox) || isAdmitted(sandbox)) return false;
  const { metadata, status } = sandbox;
  const admitted = admittedOf(sandbox);
  const requested =
    metadata.annotations?.[resumeRequestedAnnotation] !== status?.observedResumeRequest ||
    metadata.generation > (admitted?.observedGeneration ?? 0);
  return admitted === undefined || !isPausingReason(admitted.reason) || requested;
}
