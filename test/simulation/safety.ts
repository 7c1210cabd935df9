import { isDeepStrictEqual } from 'node:util';
import type { SandboxKeys } from '../../src/agent/keys.ts';
import { maxContainerLosses } from '../../src/controllers/conversation/execution/run-resume.ts';
import { SandboxFailure } from '../../src/controllers/sandbox/decide.ts';
import {
  conversations,
  type Conversation,
  type LaterMessage,
} from '../../src/resources/conversation.ts';
import { conversationIdOf } from '../../src/resources/ids.ts';
import { startStatuses } from '../../src/resources/conversation-status.ts';
import { leases, pods, type Lease, type Pod } from '@conversation-operator/kube/core';
import { sandboxes, sandboxLabel, type Sandbox } from '../../src/resources/sandbox.ts';
import { shouldRun } from '../../src/status/sandbox-phase.ts';
import type { KubeObject } from '@conversation-operator/kube/object';
import type { AgentProcess, StoredConversation } from './agent-process.ts';
import { isAnswered } from './stored-answers.ts';
import type { Change, Cluster } from './cluster.ts';
import { idOfName } from './named-conversations.ts';
import type { SimulatedNode } from './node.ts';
import type { Scheduler } from './scheduler.ts';

/** The product has broken a promise. */
export class Violation extends Error {
  override readonly name = 'Violation';
  readonly rule: string;

  constructor(rule: string, detail: string) {
    super(`${rule}: ${detail}`);
    this.rule = rule;
  }
}

export interface SafetyOptions {
  readonly cluster: Cluster;
  readonly node: SimulatedNode;
  readonly scheduler: Scheduler;
  readonly keys: SandboxKeys;
  readonly isOperator: (actor: string) => boolean;
  /** Maximum age of a run unknown to the operator: the time of an agent call and the deletion. */
  readonly unknownMs: number;
  /** Whether agents keep their question when they end. */
  readonly keepsQuestions: boolean;
  /** `agent.stuckAfter` of the template; absent: no run is interrupted as stuck. */
  readonly stuckAfterMs?: number | undefined;
  /** Whether no wall clock was ever wrong: else a run seems to have lasted between two losses. */
  readonly clocksAreRight: () => boolean;
}

type OwnerReference = NonNullable<KubeObject['metadata']['ownerReferences']>[number];

interface PodHistory {
  /** At some time of the pod's life it was not wanted, or it had ended by itself. */
  mayGo: boolean;
}

/** Maximum time of garbage collection for a pod that has no owner any more. */
const orphanMs = 5_000;

/** Promises that hold at every moment. The checks see every write, and agents after every step. */
export class Safety {
  readonly #options: SafetyOptions;
  readonly #pods = new Map<string, PodHistory>();
  readonly #secrets = new Map<string, readonly string[]>();
  /** By the uid of the conversation: how many times an agent got its first message. */
  readonly #firstMessages = new Map<string, number>();
  readonly #resumedAt = new Map<string, number>();
  /**
   * By the UID of every sandbox there ever was: its agent may receive a message while the sandbox
   * is deleted, when another conversation of that id exists.
   */
  readonly #owners = new Map<string, readonly OwnerReference[]>();
  /** Owner of every conversation and every sandbox there ever was, by its UID. */
  readonly #ownerNames = new Map<string, string>();
  /** Sent messages, by their text: each text is sent once. */
  readonly #sent = new Map<string, { readonly uid: string; readonly number: number }>();
  /** The number of the last message that the agent has, by the UID of the conversation. */
  readonly #delivered = new Map<string, number>();
  #holder: string | undefined;
  /** A violation seen within a call of the product, which must not catch the error. */
  #violation: Violation | undefined;

  constructor(options: SafetyOptions) {
    this.#options = options;
    options.cluster.onChange((change) => this.#observe(change));
  }

  get holder(): string | undefined {
    return this.#holder;
  }

  /** After every step. */
  check(): void {
    if (this.#violation !== undefined) throw this.#violation;
    const busy = new Map<string, AgentProcess>();
    for (const process of this.#options.node.running) {
      const other = busy.get(process.volume.claimUid);
      if (other !== undefined)
        throw new Violation(
          'a volume has one agent at most',
          `${other.id} and ${process.id} are on ${process.volume.claimUid}`,
        );
      busy.set(process.volume.claimUid, process);
    }
  }

  operatorRuns(conversation: StoredConversation): void {
    const stored = this.#options.cluster.conversations.find(
      (one) => conversationIdOf(one) === conversation.id,
    );
    // A message that was delivered and not acted on is a request of a person, as undelivered ones
    // are, and as an answer is. The operator may request its run before it stores the delivery.
    const { runPending, inFlight } = stored?.status?.messages ?? {};
    const hasMessage = runPending === true || inFlight !== undefined;
    const isAsked = hasMessage || (stored !== undefined && isAnswered(stored));
    if (conversation.pausedByOwner && !isAsked)
      this.#violation ??= new Violation(
        'a run that its owner has paused stays paused',
        `the run of ${conversation.id} was continued`,
      );
    if (conversation.failure !== undefined && !hasMessage)
      this.#violation ??= new Violation(
        'a run that has failed is not resumed',
        `the run of ${conversation.id} was continued`,
      );
    if (!conversation.lost) return;
    conversation.lost = false;
    conversation.continuations++;
    const allowed = this.#options.clocksAreRight() ? maxContainerLosses : 2 * maxContainerLosses;
    if (conversation.continuations > allowed)
      this.#violation ??= new Violation(
        'the number of resumes of a run is limited',
        `${conversation.id} for the ${conversation.continuations}th time`,
      );
  }

  /** Whether the owner pauses the sandbox, or did a short while ago. */
  pausedLately(sandboxUid: string): boolean {
    const { cluster, scheduler } = this.#options;
    const resumedAt = this.#resumedAt.get(sandboxUid) ?? Number.NEGATIVE_INFINITY;
    return (
      cluster.sandboxOf(sandboxUid)?.spec.replicas === 0 ||
      scheduler.monotonic() - resumedAt < latelyMs
    );
  }

  #observe(change: Change): void {
    if (change.plural === leases.plural)
      this.#holder =
        change.type === 'DELETED' ? undefined : (change.object as Lease).spec?.holderIdentity;
    else this.#leader(change);
    this.#nothingSecret(change);
    if (change.plural === conversations.plural) {
      this.#ownerNames.set(change.object.metadata.uid, (change.object as Conversation).spec.owner);
      this.#starts(change.object as Conversation, change.before as Conversation | undefined);
      this.#messages(change.object as Conversation);
      this.#stalls(change.object as Conversation, change.before as Conversation | undefined);
    }
    if (change.plural === sandboxes.plural)
      this.#sandbox(change, change.object as Sandbox, change.before as Sandbox | undefined);
    if (change.plural === pods.plural) this.#pod(change, change.object, change.before);
  }

  #leader({ actor, plural, object, type }: Change): void {
    if (!this.#options.isOperator(actor) || actor === this.#holder) return;
    throw new Violation(
      'only the leader writes',
      `${actor} wrote ${type} ${plural}/${object.metadata.name}, the lease is held by ${this.#holder ?? 'no process'}`,
    );
  }

  #starts({ metadata, spec, status }: Conversation, before: Conversation | undefined): void {
    const old =
      before?.metadata.uid === metadata.uid ? (before.status?.start?.transitions ?? []) : [];
    const now = status?.start?.transitions ?? [];
    const words = now.map((transition) => transition.status);
    const story = `${metadata.name}: ${old.map((transition) => transition.status).join(' ')} -> ${words.join(' ')}`;
    if (old.some((transition, index) => JSON.stringify(transition) !== JSON.stringify(now[index])))
      throw new Violation('transitions of a start are only appended', story);
    const ranks = words.map((word) => startStatuses.indexOf(word));
    if (ranks.some((rank, index) => index > 0 && rank <= (ranks[index - 1] ?? -1)))
      throw new Violation('no start goes backwards', story);
    if (words.slice(0, -1).some((word) => word === 'READY' || word === 'ERROR'))
      throw new Violation('READY and ERROR are final', story);
    if (status?.start !== undefined && status.start.status !== words.at(-1))
      throw new Violation('transitions of a start are only appended', story);
    if (old.length > 0 && status?.start === undefined)
      throw new Violation('transitions of a start are only appended', story);
    if (
      status?.start?.status === 'ERROR' &&
      !((status.start.errorCode ?? '') !== '' && (status.start.error ?? '') !== '')
    )
      throw new Violation('a failed start has a reason', story);
    const owners = this.#owners.get(status?.sandboxUID ?? '');
    if (
      status?.sandboxUID !== undefined &&
      spec.sandboxName === undefined &&
      owners?.some(({ uid }) => uid === metadata.uid) !== true
    )
      throw new Violation(
        'a start has a sandbox of its own',
        `${metadata.name} has taken that of an earlier conversation of its name`,
      );
    // The template is there all the time.
    if (status?.start?.errorCode === SandboxFailure.templateNotFound)
      throw new Violation('the reason of a failed start is true', story);
  }

  #sandbox({ actor, type }: Change, sandbox: Sandbox, before: Sandbox | undefined): void {
    const { name, uid } = sandbox.metadata;
    // An owner may take a reference back from a sandbox of their own.
    const known = this.#owners.get(uid) ?? [];
    const { ownerReferences = [] } = sandbox.metadata;
    this.#owners.set(uid, [
      ...known,
      ...ownerReferences.filter((owner) => known.every((one) => one.uid !== owner.uid)),
    ]);
    this.#ownerNames.set(uid, sandbox.spec.owner);
    const same = before?.metadata.uid === uid;
    if (
      same &&
      type !== 'DELETED' &&
      this.#options.isOperator(actor) &&
      JSON.stringify(before.spec) !== JSON.stringify(sandbox.spec) &&
      !isClaim(before, sandbox) &&
      !this.#isResumeForAnswer(before, sandbox)
    )
      throw new Violation(
        'the operator does not change the spec of a sandbox',
        `${actor} changed the spec of ${name}`,
      );
    if (same && before.spec.replicas === 0 && sandbox.spec.replicas === 1)
      this.#resumedAt.set(uid, this.#options.scheduler.monotonic());
    const { phase, containerID } = sandbox.status ?? {};
    const running =
      type !== 'DELETED' &&
      phase === 'RUNNING' &&
      (!same || before.status?.phase !== 'RUNNING' || before.status.containerID !== containerID);
    if (running) {
      // The container may have restarted since the read of its status; the pod's agent must have
      // answered.
      const { processes } = this.#options.node;
      const podUid = processes.get(containerID ?? '')?.podUid;
      if (
        ![...processes.values()].some((process) => process.podUid === podUid && process.hasAnswered)
      ) {
        throw new Violation(
          'a sandbox is RUNNING only after its agent has answered',
          `${name} by ${containerID ?? 'no container'}`,
        );
      }
    }
    if (
      same &&
      before.status?.masterKeyId !== undefined &&
      sandbox.status?.masterKeyId !== before.status.masterKeyId
    )
      throw new Violation(
        'the master key of a sandbox does not change',
        `the master key of ${name} has changed`,
      );
    if (type === 'DELETED') {
      this.#expectOrphansToGo(uid);
      for (const pod of this.#podsOf(uid)) this.#historyOf(pod).mayGo = true;
    } else if (!shouldRun(sandbox))
      for (const pod of this.#podsOf(uid)) this.#historyOf(pod).mayGo = true;
  }

  #pod(change: Change, pod: Pod, before: Pod | undefined): void {
    const { type, actor } = change;
    const { metadata, status } = pod;
    const history = this.#historyOf(pod);
    const owner = this.#options.cluster.sandboxOf(ownerOf(pod) ?? '');
    if (
      owner === undefined ||
      !shouldRun(owner) ||
      status?.phase === 'Failed' ||
      status?.phase === 'Succeeded'
    )
      history.mayGo = true;
    if (type === 'ADDED') {
      if (owner === undefined) this.#expectOrphansToGo(ownerOf(pod) ?? '');
      this.#onePod(pod);
    }
    const ends =
      type === 'DELETED'
        ? before?.metadata.deletionTimestamp === undefined
        : metadata.deletionTimestamp !== undefined &&
          before?.metadata.deletionTimestamp === undefined;
    if (!ends || !this.#options.isOperator(actor)) return;
    if (!history.mayGo)
      throw new Violation(
        'no pod is deleted while its sandbox should run',
        `${actor} deleted ${metadata.name} (${metadata.uid})`,
      );
    this.#wasAgentInterrupted(metadata.uid);
  }

  /** The answer of a person resumes the sandbox, and changes nothing else. */
  #isResumeForAnswer(before: Sandbox, { metadata, spec }: Sandbox): boolean {
    return (
      before.spec.replicas === 0 &&
      JSON.stringify({ ...before.spec, replicas: 1 }) === JSON.stringify(spec) &&
      this.#options.cluster.conversations.some(
        (one) => one.status?.sandboxUID === metadata.uid && isAnswered(one),
      )
    );
  }

  #onePod(pod: Pod): void {
    const sandbox = pod.metadata.labels?.[sandboxLabel];
    const others = this.#options.cluster.pods.filter(
      ({ metadata, status }) =>
        metadata.labels?.[sandboxLabel] === sandbox &&
        metadata.uid !== pod.metadata.uid &&
        status?.phase !== 'Failed' &&
        status?.phase !== 'Succeeded',
    );
    if (others.length > 0)
      throw new Violation(
        'a sandbox has one pod at most',
        `${sandbox ?? ''} has ${others.length + 1} pods`,
      );
  }

  /** The deletion of a pod follows the interrupt of its runs, unless its agent can't be reached. */
  #wasAgentInterrupted(podUid: string): void {
    const { node, scheduler, unknownMs } = this.#options;
    const now = scheduler.monotonic();
    for (const process of node.running) {
      if (
        process.podUid !== podUid ||
        process.state !== 'ready' ||
        process.silentSince !== undefined ||
        now < process.troubledUntil
      )
        continue;
      if (process.isDeaf) continue;
      // A run that began while the deletion was under way could not be known.
      const untold = process.running.filter(({ runStartedAt }) => now - runStartedAt > unknownMs);
      // Nor a question that the agent has just read from its volume.
      const readAt = process.initialisedAt ?? now;
      const asking = [...process.volume.conversations.values()].filter(
        ({ status, before }) =>
          status === 'waiting_for_confirmation' && now - Math.max(before.until, readAt) > unknownMs,
      );
      if (asking.length > 0 && !this.#options.keepsQuestions)
        throw new Violation(
          'no pod is deleted while an action waits for a confirmation',
          `${asking.map(({ id }) => id).join(' ')} in ${process.id}`,
        );
      if (untold.length > 0)
        throw new Violation(
          'a run is interrupted before its pod is deleted',
          `${untold.map(({ id }) => id).join(' ')} in ${process.id}`,
        );
    }
  }

  #expectOrphansToGo(ownerUid: string): void {
    const { cluster, scheduler } = this.#options;
    scheduler.after(orphanMs, () => {
      const left = this.#podsOf(ownerUid).find(
        ({ metadata }) => metadata.deletionTimestamp === undefined,
      );
      if (left !== undefined && cluster.sandboxOf(ownerUid) === undefined)
        throw new Violation('no pod outlives its sandbox', left.metadata.name);
    });
  }

  /** Session keys and agents' file keys are stored nowhere, bootstrap keys in pods alone. */
  #nothingSecret({ plural, object, text }: Change): void {
    const { keys } = this.#options;
    if (plural === sandboxes.plural) {
      const { uid } = object.metadata;
      if (!this.#secrets.has(uid))
        this.#secrets.set(uid, [keys.sessionKey(uid), keys.secretKey(uid), keys.bootstrapKey(uid)]);
    }
    for (const [uid, [session = '', secret = '', bootstrap = '']] of this.#secrets) {
      const known = plural === pods.plural ? [session, secret] : [session, secret, bootstrap];
      if (known.some((key) => text.includes(key)))
        throw new Violation(
          'no secret is stored',
          `${plural}/${object.metadata.name} contains a key of sandbox ${uid}`,
        );
    }
  }

  firstMessage(process: AgentProcess, conversationId: string): void {
    const sandboxOwner = this.#ownerNames.get(process.sandboxUid);
    const owners = (this.#owners.get(process.sandboxUid) ?? []).filter(
      ({ uid, name }) =>
        idOfName(name) === conversationId && this.#ownerNames.get(uid) === sandboxOwner,
    );
    // The conversation that the sandbox was made for; of a sandbox that is shared, the present one
    // of that id. A deleted conversation and a later one of its name may both have joined the
    // sandbox: then the message is of the one whose UID the agent has stored.
    const storedUid = process.volume.conversations.get(conversationId)?.uid;
    const owner = (owners.find(({ uid }) => uid === storedUid) ?? owners[0])?.uid;
    const uid =
      owner ??
      this.#options.cluster.conversations.find(
        (conversation) =>
          conversationIdOf(conversation) === conversationId &&
          conversation.spec.owner === sandboxOwner,
      )?.metadata.uid ??
      `${conversationId} in ${process.sandboxUid}`;
    const count = (this.#firstMessages.get(uid) ?? 0) + 1;
    this.#firstMessages.set(uid, count);
    if (count > 1)
      this.#violation ??= new Violation(
        'an agent receives a first message once',
        `the conversation ${conversationId} (${uid}) was received ${count} times`,
      );
  }

  firstMessagesOf(conversationUid: string): number {
    return this.#firstMessages.get(conversationUid) ?? 0;
  }

  /** A run that is interrupted as stuck has reported nothing for `stuckAfterMs`. */
  #stalls(conversation: Conversation, before: Conversation | undefined): void {
    const { metadata, status } = conversation;
    const { node, scheduler, stuckAfterMs = Infinity } = this.#options;
    const stopped =
      status?.interruption?.abandonedReason === 'Stalled' &&
      before?.status?.interruption?.abandonedReason !== 'Stalled';
    if (!stopped) return;
    const stored = node
      .conversationsOf(status.sandboxUID ?? '')
      .get(conversationIdOf(conversation));
    const silentMs = scheduler.monotonic() - (stored?.stalledAt ?? Infinity);
    if (stored !== undefined && silentMs < stuckAfterMs)
      throw new Violation(
        'only a run that reports nothing is interrupted as stuck',
        `${metadata.name}, silent for ${silentMs} ms`,
      );
  }

  #messages({ metadata: { uid, name }, spec, status }: Conversation): void {
    for (const { number, content } of spec.messages ?? [])
      this.#sent.set(textOf(content), { uid, number });
    const { lastDelivered = 0 } = status?.messages ?? {};
    if (lastDelivered > this.deliveredTo(uid))
      throw new Violation(
        deliveredOnce,
        `${name} counts ${lastDelivered} messages as delivered, of ${this.deliveredTo(uid)}`,
      );
  }

  delivered(text: string): void {
    const sent = this.#sent.get(text);
    if (sent === undefined) return;
    const before = this.deliveredTo(sent.uid);
    if (sent.number === before + 1) this.#delivered.set(sent.uid, sent.number);
    else
      this.#violation ??= new Violation(
        deliveredOnce,
        `message ${sent.number} was delivered after message ${before}: ${text}`,
      );
  }

  deliveredTo(conversationUid: string): number {
    return this.#delivered.get(conversationUid) ?? 0;
  }

  #podsOf(sandboxUid: string): readonly Pod[] {
    return this.#options.cluster.pods.filter((pod) => ownerOf(pod) === sandboxUid);
  }

  #historyOf({ metadata }: KubeObject): PodHistory {
    const history = this.#pods.get(metadata.uid) ?? { mayGo: false };
    this.#pods.set(metadata.uid, history);
    return history;
  }
}

const deliveredOnce = 'each message is delivered once and in order';
const textOf = (content: LaterMessage['content']): string =>
  content.map(({ text }) => text ?? '').join('\n');

/** Maximum time until a pause reaches the processes that carry it out: that of a silent watch. */
const latelyMs = 180_000;
export const ownerOf = ({ metadata }: KubeObject): string | undefined =>
  metadata.ownerReferences?.find(({ kind }) => kind === sandboxes.kind)?.uid;

/** Whether a warm sandbox gets its owner, and nothing else of its spec changes. */
const isClaim = (before: Sandbox, after: Sandbox): boolean =>
  before.spec.owner === '' &&
  isDeepStrictEqual({ ...before.spec, owner: after.spec.owner }, after.spec);
