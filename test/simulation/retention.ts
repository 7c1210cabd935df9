import { conversations, type Conversation } from '../../src/resources/conversation.ts';
import { persistentVolumeClaims } from '@conversation-operator/kube/core';
import type { KubeObject } from '@conversation-operator/kube/object';
import { sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import type { Change, Cluster } from './cluster.ts';
import type { Duty } from './duties.ts';
import { isFailedStart } from './failed-start.ts';
import type { Random } from './random.ts';
import { RetentionDues, type Fate, type Moment } from './retention-dues.ts';
import {
  RetentionHistory,
  type RetentionSettings,
  type StoredAnnouncement,
} from './retention-history.ts';
import { RetentionWishes } from './retention-wishes.ts';
import { Violation } from './safety.ts';
import type { Scheduler } from './scheduler.ts';

export interface RetentionOptions {
  readonly cluster: Cluster;
  readonly scheduler: Scheduler;
  readonly random: Random;
  /** Whether the actor is a run of an operator. */
  readonly isOperator: (actor: string) => boolean;
  /** The wall clocks of the operators, in milliseconds since 1970. */
  readonly wallClocks: () => readonly number[];
  /** Whether anything is ever deleted. */
  readonly enabled: boolean;
  /** Time in milliseconds after which no setting changes. */
  readonly untilMs: number;
}

/** Short enough that deletions happen while there are faults. */
export const retentionTimes = { minLeadMs: 4_000, confirmMs: 3_000 };

/** Times are stored in whole milliseconds. */
const roundingMs = 2;
/**
 * From a leader's first read for a deletion to its execution: slow reads, a write that is executed
 * late, and a process that is frozen.
 */
const troubledMs = 20_000;
const calmMs = 500;
/** Maximum time from the moment at which a deletion is certainly due: some reads and writes. */
const promptMs = 3_000;

/** Checks what retention may and must delete, by a record that shares no rule with the product. */
export class Retention {
  readonly #options: RetentionOptions;
  readonly #history: RetentionHistory;
  readonly #dues: RetentionDues;
  readonly #wishes: RetentionWishes | undefined;
  /** How much wall clocks have differed, in milliseconds; stored times are wrong by as much. */
  #clockErrorMs = 0;
  #calmSince = Infinity;
  deletions = 0;

  constructor(options: RetentionOptions) {
    const { cluster, enabled } = options;
    this.#options = options;
    this.#history = new RetentionHistory(options);
    this.#dues = new RetentionDues({ cluster, history: this.#history });
    this.#wishes = enabled ? new RetentionWishes(options) : undefined;
    cluster.onChange((change) => this.#observe(change));
  }

  /** The settings of the template at the beginning; undefined: nothing ever expires. */
  get settings(): RetentionSettings | undefined {
    return this.#wishes?.settings;
  }

  start(): void {
    this.#wishes?.start();
  }

  /** Starts the exercise, once nothing goes wrong any more. */
  startExercise(): void {
    this.#wishes?.startExercise();
  }

  get busy(): boolean {
    return this.#wishes?.busy === true;
  }

  /** From here on no message is lost or late. */
  expectCalm(): void {
    this.#calmSince = this.#now;
  }

  /** Sentences about deletions that are under way, and about outdated announcements. */
  unsettled(): readonly string[] {
    return this.#pending().map(({ text }) => text);
  }

  /** Duties for objects that have expired, and for announcements that are outdated. */
  duties(): readonly Duty[] {
    return this.#pending().flatMap(({ text, rule, dueMs }) =>
      dueMs > this.#now ? [] : [{ rule, subject: text, boundMs: promptMs }],
    );
  }

  #pending() {
    if (this.settings === undefined) return [];
    const { cluster } = this.#options;
    const moment: Moment = { now: this.#now, knownUntil: this.#now };
    const of = (object: KubeObject, fate: Fate, announcement: StoredAnnouncement | undefined) => {
      const what = `${object.kind} ${object.metadata.name}`;
      const [first] = 'used' in fate ? [] : [...fate.dues].sort((one, other) => one.at - other.at);
      if (first !== undefined) {
        const text = `${what} is kept for too long`;
        const leadMs = leadOf(first.keptMs);
        if (announcement === undefined)
          return [{ text, rule: 'a deletion is announced in time', dueMs: first.at - leadMs }];
        // An object that was found late is announced first all the same.
        return [
          {
            text,
            rule: 'an expired object is deleted in time',
            dueMs: Math.max(first.at, announcement.at + leadMs) + retentionTimes.confirmMs,
          },
        ];
      }
      if (announcement === undefined) return [];
      return [
        {
          text: `${what} is kept, and said to be deleted`,
          rule: 'an outdated announcement is withdrawn',
          dueMs: 0,
        },
      ];
    };
    return [
      ...cluster.conversations.flatMap((conversation) =>
        of(
          conversation,
          this.#dues.ofConversation(conversation, moment, true),
          this.#history.ofConversation(conversation.metadata.uid)?.announcement,
        ),
      ),
      ...cluster.sandboxes.flatMap((sandbox) =>
        of(
          sandbox,
          this.#dues.ofSandbox(sandbox, moment),
          this.#history.ofSandbox(sandbox.metadata.uid)?.announcement,
        ),
      ),
    ];
  }

  get #now(): number {
    return this.#options.scheduler.monotonic();
  }

  #observe(change: Change): void {
    const { plural, type, object, before, actor } = change;
    const offsets = this.#options.wallClocks().map((ms) => ms - this.#options.scheduler.now());
    this.#clockErrorMs = Math.max(
      this.#clockErrorMs,
      Math.max(0, ...offsets) - Math.min(0, ...offsets),
    );
    const isDeleted =
      type === 'DELETED' ||
      (object.metadata.deletionTimestamp !== undefined &&
        before?.metadata.deletionTimestamp === undefined);
    if (!isDeleted) return;
    const last = before?.metadata.uid === object.metadata.uid ? before : object;
    const what = `${actor} deleted ${plural}/${object.metadata.name}`;
    if (plural === persistentVolumeClaims.plural) this.#claimDeleted(what, change);
    if (!this.#options.isOperator(actor)) return;
    if (plural === conversations.plural) this.#conversationDeleted(what, last as Conversation);
    if (plural === sandboxes.plural) this.#sandboxDeleted(what, last as Sandbox);
  }

  #claimDeleted(what: string, { object, actor }: Change): void {
    if (!this.#options.isOperator(actor) && actor !== 'plane') return;
    const owners = object.metadata.ownerReferences ?? [];
    // On the volume of a start that has failed there is nothing.
    const uses = ({ metadata, status }: Sandbox) =>
      metadata.deletionTimestamp === undefined &&
      owners.some(({ uid }) => uid === metadata.uid) &&
      (status?.phase !== 'ERROR' || status.lastContainerID !== undefined);
    if (this.#options.cluster.sandboxes.some(uses))
      throw new Violation('no object in use is deleted', `${what}, whose sandbox is still there`);
  }

  #conversationDeleted(what: string, conversation: Conversation): void {
    this.deletions++;
    const announcement = this.#history.ofConversation(conversation.metadata.uid)?.announcement;
    const mistake = this.#mistake(
      what,
      this.#dues.ofConversation(conversation, this.#moment, true),
      announcement,
      [conversation],
    );
    if (mistake !== undefined) throw mistake;
  }

  /** Whether the conversation that has claimed a sandbox of a pool may use it. */
  #isOfItsMaker({ metadata: { uid, ownerReferences = [] } }: Sandbox): boolean {
    const issuer = this.#options.cluster.conversations.find(({ metadata }) =>
      ownerReferences.some((owner) => owner.controller === true && owner.uid === metadata.uid),
    );
    return issuer !== undefined && (issuer.status?.sandboxUID ?? uid) === uid;
  }

  #sandboxDeleted(what: string, sandbox: Sandbox): void {
    const { cluster } = this.#options;
    // The sandbox of a start is deleted when that start has failed.
    if (isFailedStart(cluster, sandbox)) return;
    // A pool deletes its warm sandboxes, and a start a warm sandbox that it claimed in vain;
    // `Pools` checks both.
    if (sandbox.spec.poolName !== undefined && !this.#isOfItsMaker(sandbox)) return;
    this.deletions++;
    const { uid, ownerReferences = [] } = sandbox.metadata;
    const announcement = this.#history.ofSandbox(uid)?.announcement;
    const users = this.#dues.usersOf(sandbox);
    const byItself = this.#mistake(
      what,
      this.#dues.ofSandbox(sandbox, this.#moment),
      announcement,
      [sandbox, ...users],
    );
    if (byItself === undefined) return;
    // The deletion of a conversation deletes the sandbox that it alone uses.
    const [issuer, ...others] = cluster.conversations.filter(({ metadata }) =>
      ownerReferences.some((owner) => owner.uid === metadata.uid),
    );
    if (issuer === undefined) throw byItself;
    if (others.length > 0)
      throw new Violation(
        'no object in use is deleted',
        `${what}, which belongs to others too. By itself: ${byItself.message}`,
      );
    const record = this.#history.ofConversation(issuer.metadata.uid);
    if ((record?.setAt ?? 0) > this.#moment.knownUntil) return;
    const withIt = this.#mistake(
      what,
      this.#dues.ofConversation(issuer, this.#moment, false),
      record?.announcement,
      [issuer],
    );
    if (withIt !== undefined)
      throw record?.announcement === undefined || announcement !== undefined ? byItself : withIt;
  }

  get #moment(): Moment {
    const now = this.#now;
    return { now, knownUntil: now - (now - this.#calmSince > troubledMs ? calmMs : troubledMs) };
  }

  /** The mistake in a deletion that happens now. */
  #mistake(
    what: string,
    fate: Fate,
    announcement: StoredAnnouncement | undefined,
    subjects: readonly KubeObject[],
  ): Violation | undefined {
    if ('used' in fate)
      return new Violation('no object in use is deleted', `${what}: ${fate.used}`);
    const [first] = [...fate.dues].sort((one, other) => one.at - other.at);
    if (first === undefined)
      return new Violation('no object is deleted where retention is off', what);
    const earlyMs = first.at - this.#now - this.#clockErrorMs - roundingMs;
    if (earlyMs > 0)
      return new Violation(
        'no object is deleted before its time',
        `${what}, ${earlyMs.toFixed(0)} ms too early`,
      );
    const mistake = this.#mistakeInAnnouncement(announcement, subjects);
    return mistake === undefined
      ? undefined
      : new Violation('deletions are announced', `${what}, ${mistake}`);
  }

  #mistakeInAnnouncement(
    announcement: StoredAnnouncement | undefined,
    subjects: readonly KubeObject[],
  ): string | undefined {
    if (announcement === undefined) return 'without a condition that says so';
    const { minLeadMs, confirmMs } = retentionTimes;
    // Events get lost when messages do, or with the process that has them in its memory, and
    // conditions are stored late.
    const isSure = announcement.at > this.#calmSince;
    const areClocksRight = this.#clockErrorMs === 0;
    const saidMs = this.#now - announcement.at;
    if (saidMs < (isSure && areClocksRight ? minLeadMs : confirmMs))
      return `said ${saidMs.toFixed(0)} ms before`;
    const promised = Date.parse(/\d{4}-\d\d-\d\dT[\d:.]+Z/.exec(announcement.message)?.[0] ?? '');
    const minMs = areClocksRight ? confirmMs : -this.#clockErrorMs;
    if (!(promised + minMs <= this.#options.scheduler.now() + roundingMs))
      return `which was to be later: ${announcement.message}`;
    const uids = subjects.map(({ metadata }) => metadata.uid);
    return isSure && !this.#history.isAnnounced(uids, announcement.message)
      ? 'without an Event that says so'
      : undefined;
  }
}

/** How long before a deletion it is announced: a tenth of the time for which things are kept. */
const leadOf = (keptMs: number): number => Math.max(retentionTimes.minLeadMs, keptMs / 10);
