import type { Conversation } from '../../src/resources/conversation.ts';
import type { Sandbox } from '../../src/resources/sandbox.ts';
import { viewOfSandbox } from '../../src/status/sandbox-phase.ts';
import type { Cluster } from './cluster.ts';
import type { RetentionHistory, RetentionSettings, SandboxRecord } from './retention-history.ts';

/** Time at which a setting expires an object, in milliseconds of the simulation. */
export interface Due {
  readonly at: number;
  readonly keptMs: number;
}

/** `used`: why the object is in use. `dues`: when settings expire the object; empty: never. */
export type Fate = { readonly used: string } | { readonly dues: readonly Due[] };

/** The time of a check, and of the knowledge behind it, in milliseconds of the simulation. */
export interface Moment {
  readonly now: number;
  /** Changes of other objects after this time may be unknown to the process that deletes. */
  readonly knownUntil: number;
}

const seconds = (text: string): number => Number(/^(\d+)s$/.exec(text)?.[1]) * 1_000;
const latest = (times: readonly number[], until: number): number =>
  Math.max(0, ...times.filter((at) => at <= until));

/** When conversations and sandboxes may be deleted, by what docs/storage.md says of that. */
export class RetentionDues {
  readonly #cluster: Cluster;
  readonly #history: RetentionHistory;

  constructor({
    cluster,
    history,
  }: {
    readonly cluster: Cluster;
    readonly history: RetentionHistory;
  }) {
    this.#cluster = cluster;
    this.#history = history;
  }

  /** `isRead`: the conversation is the very version that was judged, not one of a moment ago. */
  ofConversation(conversation: Conversation, { now, knownUntil }: Moment, isRead: boolean): Fate {
    const { metadata, spec, status } = conversation;
    const record = this.#history.ofConversation(metadata.uid);
    const until = isRead ? now : knownUntil;
    const over = record?.over.find((stretch) => stretch.until >= until);
    if (record === undefined || over === undefined) return { used: 'it is not over' };
    const endedAt = Math.max(over.since, latest(record.activity, until));
    const sandbox = this.#cluster.sandboxes.find(
      ({ metadata: { uid } }) => uid === status?.sandboxUID,
    );
    const ofSandbox = sandbox && this.#history.ofSandbox(sandbox.metadata.uid);
    if (
      sandbox !== undefined &&
      ofSandbox !== undefined &&
      this.#isChanging(sandbox, ofSandbox, knownUntil)
    )
      return { used: `its sandbox is ${ofSandbox.phase}` };
    const usedAt = Math.max(endedAt, latest(ofSandbox?.turned ?? [], isRead ? knownUntil : now));
    const own = spec.ttlSecondsAfterFinished;
    const hasFailed = status?.start?.status === 'ERROR';
    const dues = this.#history
      .settingsSince(knownUntil)
      .flatMap((settings) => [
        ...(own === undefined
          ? due(settings, hasFailed ? 'failed' : 'finished', usedAt)
          : [{ at: usedAt + own * 1_000, keptMs: own * 1_000 }]),
        ...(sandbox === undefined && status?.sandboxStatus === 'MISSING'
          ? due(settings, 'records', endedAt)
          : []),
      ]);
    return { dues };
  }

  /** The fate of a sandbox by itself, not with its conversation. */
  ofSandbox(sandbox: Sandbox, { knownUntil }: Moment): Fate {
    const record = this.#history.ofSandbox(sandbox.metadata.uid);
    const { phase, reason } = viewOfSandbox(sandbox);
    if (record === undefined || (phase !== 'PAUSED' && phase !== 'ERROR'))
      return { used: `it is ${phase}` };
    if (this.#hasPod(sandbox)) return { used: 'it has a pod' };
    const users = this.usersOf(sandbox);
    const busy = users.find(
      ({ metadata: { uid } }) =>
        (this.#history.ofConversation(uid)?.underWaySince ?? Infinity) < knownUntil,
    );
    if (busy !== undefined) return { used: `something is under way in ${busy.metadata.name}` };
    if (phase === 'PAUSED' && (reason === 'Quota' || reason === 'Idle')) {
      const interrupted =
        reason === 'Quota' && (sandbox.status?.interruptedConversationIDs?.length ?? 0) > 0;
      if (interrupted || users.some((user) => isInterrupted(user)))
        return { used: 'it resumes for the work that was interrupted' };
    }
    const since = record.written?.phase === phase ? record.written.since : record.phaseSince;
    const usedAt = Math.max(since, latest(record.asked, Infinity));
    const rule = phase === 'ERROR' ? 'failed' : 'paused';
    return {
      dues: this.#history
        .settingsSince(knownUntil)
        .flatMap((settings) => due(settings, rule, usedAt)),
    };
  }

  usersOf({ metadata: { uid } }: Sandbox): readonly Conversation[] {
    return this.#cluster.conversations.filter(({ status }) => status?.sandboxUID === uid);
  }

  /** Whether the sandbox starts, stops, or waits for a slot. */
  #isChanging(
    sandbox: Sandbox,
    { phase, phaseSince, turned }: SandboxRecord,
    knownUntil: number,
  ): boolean {
    if (phase === 'RUNNING' || Math.max(phaseSince, ...turned) > knownUntil) return false;
    return phase === 'STARTING' || this.#hasPod(sandbox);
  }

  #hasPod({ metadata: { uid } }: Sandbox): boolean {
    return this.#cluster.pods.some(
      ({ metadata }) => metadata.ownerReferences?.some((owner) => owner.uid === uid) === true,
    );
  }
}

const due = (
  settings: RetentionSettings,
  rule: keyof RetentionSettings,
  since: number,
): readonly Due[] => {
  const kept = settings[rule];
  return kept === undefined ? [] : [{ at: since + seconds(kept), keptMs: seconds(kept) }];
};

/** Whether its run resumes when a slot is free again. */
const isInterrupted = ({ status }: Conversation): boolean =>
  status?.executionStatus === 'running' ||
  (status?.executionStatus === 'paused' &&
    status.interruption !== undefined &&
    status.interruption.reason !== 'User');
