import { conversations, type Conversation } from '../../src/resources/conversation.ts';
import { kubeEvents, type KubeEvent } from '@conversation-operator/kube/core';
import { resumeRequestedAnnotation, sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import { viewOfSandbox } from '../../src/status/sandbox-phase.ts';
import {
  sandboxTemplates,
  type SandboxTemplate,
  type SandboxTemplateSpec,
} from '../../src/resources/sandbox-template.ts';
import type { Change, Cluster } from './cluster.ts';
import type { Scheduler } from './scheduler.ts';

export type RetentionSettings = NonNullable<SandboxTemplateSpec['retention']>;

/** An announcement: the text that is stored with the object. */
export interface StoredAnnouncement {
  readonly message: string;
  /** When it was stored. */
  readonly at: number;
}

interface Stretch {
  readonly since: number;
  /** Infinity: the stretch has no end yet. */
  readonly until: number;
}

/** The history of a conversation. All times here are milliseconds of the simulation. */
export interface ConversationRecord {
  /** When nothing more happened in it until a person acted, the last time at the end. */
  readonly over: Stretch[];
  /** Times at which its agent did something, or received something, in order. */
  readonly activity: number[];
  /** The time since which a start, or an undelivered message, is under way. */
  underWaySince: number | undefined;
  announcement: StoredAnnouncement | undefined;
  /** When its own setting was changed last. */
  setAt: number;
}

export interface SandboxRecord {
  /** When it was asked for: by a request to resume, or by its scale. In order. */
  readonly asked: number[];
  /** When it was made, resumed, paused, admitted, or lost its admission. In order. */
  readonly turned: number[];
  phase: string;
  /** Since when it has been in its phase. */
  phaseSince: number;
  /**
   * The phase after the last write of an operator. A person who resumes and pauses a sandbox that
   * still stops changes nothing for the operator.
   */
  written: { readonly phase: string; readonly since: number } | undefined;
  announcement: StoredAnnouncement | undefined;
}

/** Everything that may decide about a deletion, by the simulation's clock and stored objects. */
export class RetentionHistory {
  readonly #scheduler: Scheduler;
  readonly #isOperator: (actor: string) => boolean;
  readonly #conversations = new Map<string, ConversationRecord>();
  readonly #sandboxes = new Map<string, SandboxRecord>();
  /** By uid, the texts of all Events that announce a deletion. */
  readonly #announcements = new Map<string, Set<string>>();
  /** By the UID of a sandbox, the UIDs of all conversations that used it, also deleted ones. */
  readonly #users = new Map<string, Set<string>>();
  readonly #settings: { readonly at: number; readonly settings: RetentionSettings }[] = [];

  constructor({
    cluster,
    scheduler,
    isOperator,
  }: {
    readonly cluster: Cluster;
    readonly scheduler: Scheduler;
    readonly isOperator: (actor: string) => boolean;
  }) {
    this.#scheduler = scheduler;
    this.#isOperator = isOperator;
    cluster.onChange((change) => this.#observe(change));
  }

  ofConversation(uid: string): ConversationRecord | undefined {
    return this.#conversations.get(uid);
  }

  ofSandbox(uid: string): SandboxRecord | undefined {
    return this.#sandboxes.get(uid);
  }

  /** Whether these objects, or conversations that used them, have an Event with this message. */
  isAnnounced(uids: readonly string[], message: string): boolean {
    const subjects = uids.flatMap((uid) => [uid, ...(this.#users.get(uid) ?? [])]);
    return subjects.some((uid) => this.#announcements.get(uid)?.has(message) === true);
  }

  /** The settings of the template that held at some time since then. */
  settingsSince(since: number): readonly RetentionSettings[] {
    return this.#settings
      .filter((_, index) => (this.#settings[index + 1]?.at ?? Infinity) > since)
      .map(({ settings }) => settings);
  }

  /** When the template's settings changed last. */
  get settingsAt(): number {
    return this.#settings.at(-1)?.at ?? 0;
  }

  #observe({ plural, type, object, before, actor, decidedSince }: Change): void {
    if (type === 'DELETED') return;
    const known = before?.metadata.uid === object.metadata.uid ? before : undefined;
    if (plural === conversations.plural)
      this.#conversation(object as Conversation, known as Conversation | undefined, decidedSince);
    else if (plural === sandboxes.plural)
      this.#sandbox(object as Sandbox, known as Sandbox | undefined, { actor, decidedSince });
    else if (plural === sandboxTemplates.plural)
      this.#settings.push({
        at: this.#scheduler.monotonic(),
        settings: (object as SandboxTemplate).spec.retention ?? {},
      });
    else if (plural === kubeEvents.plural) this.#event(object as KubeEvent);
  }

  #conversation(
    conversation: Conversation,
    before: Conversation | undefined,
    decidedSince: number,
  ): void {
    const now = this.#scheduler.monotonic();
    const { uid } = conversation.metadata;
    const record = this.#conversations.get(uid) ?? {
      over: [],
      activity: [],
      underWaySince: undefined,
      announcement: undefined,
      setAt: now,
    };
    this.#conversations.set(uid, record);
    const sandboxUid = conversation.status?.sandboxUID;
    if (sandboxUid !== undefined)
      this.#users.set(sandboxUid, (this.#users.get(sandboxUid) ?? new Set()).add(uid));
    const last = record.over.at(-1);
    if (isOver(conversation)) {
      if (last?.until !== Infinity) record.over.push({ since: decidedSince, until: Infinity });
    } else if (last?.until === Infinity)
      record.over.splice(-1, 1, { since: last.since, until: now });
    const { lastActivityTime, messages } = conversation.status ?? {};
    // Agents' clocks are right.
    if (lastActivityTime !== before?.status?.lastActivityTime)
      record.activity.push(this.#timeOf(lastActivityTime));
    if (messages?.lastDelivered !== before?.status?.messages?.lastDelivered)
      record.activity.push(decidedSince);
    if (conversation.spec.ttlSecondsAfterFinished !== before?.spec.ttlSecondsAfterFinished)
      record.setAt = now;
    record.underWaySince = isUnderWay(conversation) ? (record.underWaySince ?? now) : undefined;
    record.announcement = this.#announcement(conversation, record.announcement);
  }

  #sandbox(
    sandbox: Sandbox,
    before: Sandbox | undefined,
    { actor, decidedSince }: Pick<Change, 'actor' | 'decidedSince'>,
  ): void {
    const { uid } = sandbox.metadata;
    const { phase } = viewOfSandbox(sandbox);
    const record = this.#sandboxes.get(uid) ?? {
      asked: [],
      turned: [],
      phase,
      phaseSince: decidedSince,
      written: undefined,
      announcement: undefined,
    };
    this.#sandboxes.set(uid, record);
    const scaled = sandbox.spec.replicas !== before?.spec.replicas;
    const requested = requestIn(sandbox) !== requestIn(before);
    if (requested || (scaled && sandbox.spec.replicas === 1)) record.asked.push(decidedSince);
    // A person who pauses a paused sandbox changes nothing.
    const pausesAgain =
      sandbox.spec.replicas === 0 &&
      before !== undefined &&
      viewOfSandbox(before).phase === 'PAUSED';
    if (requested || (scaled && !pausesAgain) || isAdmitted(sandbox) !== isAdmitted(before))
      record.turned.push(decidedSince);
    if (record.phase !== phase) record.phaseSince = decidedSince;
    record.phase = phase;
    if (this.#isOperator(actor) && record.written?.phase !== phase)
      record.written = { phase, since: decidedSince };
    record.announcement = this.#announcement(sandbox, record.announcement);
  }

  #event({ reason, message, involvedObject: { uid } }: KubeEvent): void {
    if (reason !== 'Expiring' || uid === undefined || message === undefined) return;
    const texts = this.#announcements.get(uid) ?? new Set();
    this.#announcements.set(uid, texts.add(message));
  }

  #announcement(
    { status }: Conversation | Sandbox,
    known: StoredAnnouncement | undefined,
  ): StoredAnnouncement | undefined {
    const message = status?.conditions?.find(({ type }) => type === 'Expiring')?.message;
    if (message === undefined) return undefined;
    return known?.message === message ? known : { message, at: this.#scheduler.monotonic() };
  }

  #timeOf(text: string | undefined): number {
    const ms = Date.parse(text ?? '') - this.#scheduler.now() + this.#scheduler.monotonic();
    return Number.isNaN(ms) ? 0 : ms;
  }
}

const requestIn = (sandbox: Sandbox | undefined): string | undefined =>
  sandbox?.metadata.annotations?.[resumeRequestedAnnotation];

const isAdmitted = (sandbox: Sandbox | undefined): boolean =>
  sandbox?.status?.conditions?.some(
    ({ type, status }) => type === 'Admitted' && status === 'True',
  ) === true;

const isWaitedFor = ({ spec, status }: Conversation): boolean =>
  (spec.messages ?? []).some(({ number }) => number > (status?.messages?.lastDelivered ?? 0));

const isUnderWay = (conversation: Conversation): boolean =>
  !['READY', 'ERROR'].includes(conversation.status?.start?.status ?? '') ||
  isWaitedFor(conversation);

/** Whether nothing happens in the conversation until a person acts. */
function isOver(conversation: Conversation): boolean {
  const { status } = conversation;
  if (status?.start?.status === 'ERROR') return true;
  if (status?.start?.status !== 'READY') return false;
  if (status.sandboxStatus === 'MISSING') return true;
  if (status.messages?.runPending === true || isWaitedFor(conversation)) return false;
  return ['finished', 'error', 'stuck'].includes(status.executionStatus ?? '');
}
