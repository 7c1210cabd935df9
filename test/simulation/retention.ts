import { cachedConversation } from '../../src/resources/cached-conversation.ts';
import { countdownOfConversation, countdownOfSandbox } from '../../src/controllers/retention/countdown.ts';
import type { RetentionTimes } from '../../src/controllers/retention/reconcile.ts';
import { conversations, type Conversation } from '../../src/resources/conversation.ts';
import { resumeRequestedAnnotation, runRequestedAnnotation, sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import type { SandboxTemplate, SandboxTemplateSpec } from '../../src/resources/sandbox-template.ts';
import type { Change, Cluster } from './cluster.ts';
import type { Random } from './random.ts';
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
  /** Whether the template lets anything go at all. */
  readonly enabled: boolean;
}

/** Short enough that deletions happen while there are faults. */
export const retentionTimes: RetentionTimes = { minLeadMs: 2_000, confirmMs: 3_000 };

/** Times are stored in whole milliseconds. */
const roundingMs = 2;

const seconds = (text: string | undefined): number => Number(/^(\d+)s$/.exec(text ?? '')?.[1] ?? Infinity);

/** What an operator deletes is announced, over, and has not been used for as long as the template says; nothing else is deleted. */
export class Retention {
  readonly #options: RetentionOptions;
  readonly settings: NonNullable<SandboxTemplateSpec['retention']> | undefined;
  /** By uid: when somebody last used the object, or its agent worked. */
  readonly #usedAt = new Map<string, number>();
  /** By uid: when somebody last asked for a sandbox, whether it came up or not. */
  readonly #askedAt = new Map<string, number>();
  /** By uid: when a sandbox was meant to run again, if it is. */
  readonly #scaledAt = new Map<string, number>();
  readonly #announcedAt = new Map<string, number>();
  /** How much wall clocks have differed, in milliseconds: times that are stored are wrong by as much. */
  #clockErrorMs = 0;
  deletions = 0;

  constructor(options: RetentionOptions) {
    this.#options = options;
    const { random, cluster } = options;
    const some = (): { readonly kept?: string } => (random.chance(0.6) ? { kept: `${random.whole(0, 20)}s` } : {});
    const [finished, failed, paused, records] = [some().kept, some().kept, some().kept, some().kept];
    if (options.enabled)
      this.settings = {
        ...(finished === undefined ? {} : { finished }),
        ...(failed === undefined ? {} : { failed }),
        ...(paused === undefined ? {} : { paused }),
        ...(records === undefined ? {} : { records }),
      };
    cluster.onChange((change) => this.#look(change));
  }

  /** What is on its way to be deleted, in words. */
  unsettled(): readonly string[] {
    const { cluster } = this.#options;
    if (this.settings === undefined) return [];
    const template = { metadata: { name: 'default' }, spec: { retention: this.settings } } as unknown as SandboxTemplate;
    const cached = cluster.conversations.map((conversation) => cachedConversation(conversation));
    const ofConversations = cached.filter((conversation) => {
      const sandbox = cluster.sandboxes.find(({ metadata }) => metadata.uid === conversation.status?.sandboxUID);
      return countdownOfConversation({ nowMs: this.#options.scheduler.now(), conversation, sandbox, template }) !== undefined;
    });
    const ofSandboxes = cluster.sandboxes.filter((sandbox) => {
      const inIt = cached.filter(({ status }) => status?.sandboxName === sandbox.metadata.name);
      return countdownOfSandbox({ nowMs: this.#options.scheduler.now(), sandbox, conversations: inIt, template }) !== undefined;
    });
    return [...ofConversations, ...ofSandboxes].map(({ kind, metadata }) => `${kind} ${metadata.name} is kept for too long`);
  }

  get #now(): number {
    return this.#options.scheduler.monotonic();
  }

  #look(change: Change): void {
    const { plural, type, object, before, actor } = change;
    if (plural !== conversations.plural && plural !== sandboxes.plural) return;
    const offsets = this.#options.wallClocks().map((ms) => ms - this.#options.scheduler.now());
    this.#clockErrorMs = Math.max(this.#clockErrorMs, Math.max(0, ...offsets) - Math.min(0, ...offsets));
    const { uid } = object.metadata;
    const known = before?.metadata.uid === uid ? (before as Conversation | Sandbox) : undefined;
    if (type === 'DELETED') {
      if (this.#options.isOperator(actor)) this.#deleted(change, known ?? (object as Conversation | Sandbox));
      this.#usedAt.delete(uid);
      this.#askedAt.delete(uid);
      this.#announcedAt.delete(uid);
      return;
    }
    const now = object as Conversation | Sandbox;
    if (known === undefined || isUse(now, known)) this.#usedAt.set(uid, this.#now);
    if (known === undefined || isRequest(now, known)) this.#askedAt.set(uid, this.#now);
    const [replicas, replicasBefore] = [replicasOf(now), known === undefined ? undefined : replicasOf(known)];
    if (replicas === 0) this.#scaledAt.delete(uid);
    else if (replicas === 1 && replicasBefore !== 1) this.#scaledAt.set(uid, this.#now);
    if (!isAnnounced(now)) this.#announcedAt.delete(uid);
    else if (!this.#announcedAt.has(uid)) this.#announcedAt.set(uid, this.#now);
  }

  #deleted({ plural, actor }: Change, object: Conversation | Sandbox): void {
    const { name } = object.metadata;
    if (plural === sandboxes.plural && this.#isOfFailedStart(object as Sandbox)) return;
    this.deletions++;
    const what = `${actor} deleted ${plural}/${name}`;
    if (this.settings === undefined) throw new Violation('nothing is deleted unasked', what);
    if (plural === sandboxes.plural && !['PAUSED', 'ERROR'].includes((object as Sandbox).status?.phase ?? ''))
      throw new Violation('nothing active is deleted', what);
    const own = this.#mistakeIn(what, object, object);
    // A conversation takes its own sandbox with it.
    const maker = plural === sandboxes.plural ? this.#onlyMakerOf(object as Sandbox) : undefined;
    const mistake = own === undefined || maker === undefined ? own : this.#mistakeIn(what, object, maker);
    if (mistake !== undefined) throw mistake;
  }

  /** What is wrong with the deletion of an object by the rules of another, or of the object itself. */
  #mistakeIn(what: string, object: Conversation | Sandbox, by: Conversation | Sandbox): Violation | undefined {
    if (isConversation(by) && !isOver(by)) return new Violation('nothing active is deleted', what);
    const announcedMs = this.#now - (this.#announcedAt.get(by.metadata.uid) ?? Infinity);
    if (!(announcedMs >= retentionTimes.minLeadMs))
      return new Violation('deletions are announced', `${what}, announced ${announcedMs} ms before`);
    const { finished, failed, paused, records } = this.settings ?? {};
    const rules = isConversation(by) ? [finished, failed, ...(isConversation(object) ? [records] : [])] : [failed, paused];
    const { uid } = object.metadata;
    // An agent without work keeps no conversation.
    const used = [this.#usedAt.get(by.metadata.uid), this.#askedAt.get(uid)].map((ms) => ms ?? this.#now);
    const unusedMs = this.#now - Math.max(...used, this.#scaledAt.get(uid) ?? -Infinity);
    const leastMs = Math.min(...rules.map(seconds)) * 1_000;
    return unusedMs < leastMs - this.#clockErrorMs - roundingMs
      ? new Violation('nothing is deleted before its time', `${what}, used ${unusedMs} ms before, kept ${leastMs} ms`)
      : undefined;
  }

  #onlyMakerOf({ metadata: { ownerReferences = [] } }: Sandbox): Conversation | undefined {
    const [maker, ...others] = this.#options.cluster.conversations.filter(({ metadata }) =>
      ownerReferences.some(({ uid }) => uid === metadata.uid),
    );
    return others.length === 0 ? maker : undefined;
  }

  /** The sandbox that was made for a start is given back when that has failed. */
  #isOfFailedStart({ metadata: { ownerReferences = [] } }: Sandbox): boolean {
    return ownerReferences.some(({ uid }) =>
      this.#options.cluster.conversations.some(({ metadata, status }) => metadata.uid === uid && status?.start?.status === 'ERROR'),
    );
  }
}

const isConversation = (object: Conversation | Sandbox): object is Conversation => object.kind === conversations.kind;
const replicasOf = (object: Conversation | Sandbox): number | undefined => (isConversation(object) ? undefined : object.spec.replicas);
const isAnnounced = ({ status }: Conversation | Sandbox): boolean => status?.conditions?.some(({ type }) => type === 'Expiring') === true;

/** What people ask for by annotations; notes of their own are no use. */
const requestsIn = ({ metadata: { annotations = {} } }: Conversation | Sandbox) => [
  annotations[resumeRequestedAnnotation],
  annotations[runRequestedAnnotation],
];

/** The annotations speak for a sandbox alone. */
const isRequest = (now: Conversation | Sandbox, before: Conversation | Sandbox): boolean =>
  !isConversation(now) && JSON.stringify(requestsIn(now)) !== JSON.stringify(requestsIn(before));

/** A person has written it, or its agent works. */
function isUse(now: Conversation | Sandbox, before: Conversation | Sandbox): boolean {
  if (isRequest(now, before)) return true;
  if (isConversation(now)) return !isOver(now) || (!isDead(now) && JSON.stringify(now.spec) !== JSON.stringify(before.spec));
  // To wait for room is no use beyond the request.
  return now.status?.phase === 'RUNNING';
}

/** No message reaches an agent any more. */
const isDead = ({ status }: Conversation): boolean => status?.start?.status === 'ERROR' || status?.sandboxStatus === 'MISSING';

function isOver(conversation: Conversation): boolean {
  if (isDead(conversation)) return true;
  const { spec, status } = conversation;
  const told = status?.messages?.told ?? 0;
  if (status?.start?.status !== 'READY' || (spec.messages ?? []).some(({ number }) => number > told)) return false;
  return ['finished', 'error', 'stuck'].includes(status.executionStatus ?? '');
}
