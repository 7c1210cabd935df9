import {
  isStartOver,
  startStatusOf,
  undeliveredMessages,
  type Conversation,
} from '../../src/resources/conversation.ts';
import { conversationIdOf, ownSandboxName } from '../../src/resources/ids.ts';
import type { Sandbox } from '../../src/resources/sandbox.ts';
import { viewOfSandbox } from '../../src/status/sandbox-phase.ts';
import type { AgentProcess } from './agent-process.ts';
import type { Cluster } from './cluster.ts';
import type { Duty } from './duties.ts';
import type { Safety } from './safety.ts';
import { isAnswering } from './sandbox-duties.ts';
import type { SandboxHistory } from './sandbox-history.ts';
import type { Scheduler } from './scheduler.ts';
import { tenant } from './tenant.ts';

export interface ConversationDutiesOptions {
  readonly cluster: Cluster;
  readonly scheduler: Scheduler;
  readonly history: SandboxHistory;
  readonly safety: Safety;
}

/** Maximum time to do something that only needs the API server. */
const promptMs = 3_000;
/** Maximum time until a start whose sandbox name is taken shows a reason, and until it is over. */
const takenMs = 5_000;
const maxTakenMs = 65_000;
/**
 * Maximum time for a start in a sandbox that runs: some short calls, and with a repository a clone
 * that takes 20 s.
 */
const startMs = 6_000;
const cloneMs = 40_000;
/** Maximum time until an idle agent has a message; a busy one takes it at the end of a step. */
const deliveryMs = 6_000;
const stepMs = 40_000;
/** A message that may be under way already is sent again only when it can't come any more. */
const doubtMs = 30_000;
/** Maximum time that a step of a start waits for an agent that does not answer. */
const stepCallMs = 30_000;
/** Maximum time that a call to a busy agent holds a conversation back. */
const callMs = 12_000;
/** Interval of the polls of an agent that has reported nothing. */
const pollMs = 64_000;
/** Maximum time from when a run of an agent can resume until it does. */
const continuationMs = 10_000;

/** Duties for conversations, by their spec, their sandbox, and the true work of their agent. */
export function dutiesOfConversations({
  cluster,
  scheduler,
  history,
  safety,
}: ConversationDutiesOptions): readonly Duty[] {
  const now = scheduler.monotonic();
  return cluster.conversations
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .flatMap(ofConversation);

  function ofConversation(conversation: Conversation): readonly Duty[] {
    const { metadata, status, spec } = conversation;
    const due = (rule: string, boundMs: number, occasion: number | string = ''): Duty => ({
      rule,
      subject: `conversation ${metadata.name} ${occasion}`,
      boundMs,
    });
    const start = startStatusOf(conversation);
    if (start === 'WORKING') return ofBeginning(conversation, due);
    if (start === 'ERROR') return ofFailedStart(conversation, due);
    const sandbox = cluster.sandboxes.find(({ metadata: { uid } }) => uid === status?.sandboxUID);
    const view = viewOfSandbox(sandbox);
    const duties: Duty[] = [];
    // The step of a start waits for its agent even when the sandbox is deleted or paused meanwhile:
    // only the timeout of the step ends that call.
    const isHeld =
      status?.sandboxUID !== undefined && history.mayHoldCall(status.sandboxUID, stepCallMs);
    const heldMs = isHeld ? stepCallMs : startMs;
    const showMs = !isStartOver(start)
      ? heldMs
      : undeliveredMessages(conversation).length > 0
        ? callMs
        : promptMs;
    // A deletion that a finalizer of the tenant delays keeps the reason that was shown first.
    const isGone =
      spec.owner === tenant && status?.sandboxStatus === 'MISSING' && view.phase === 'MISSING';
    if (
      status?.sandboxName !== undefined &&
      !isGone &&
      (status.sandboxStatus !== view.phase || status.sandboxStatusReason !== view.reason)
    )
      duties.push(
        due('a conversation shows its sandbox in time', showMs, `${view.phase} ${view.reason}`),
      );
    if (!isStartOver(start) && (view.phase === 'ERROR' || view.phase === 'MISSING'))
      duties.push(due('a start ends with its sandbox in time', heldMs));
    const agent = sandbox === undefined ? undefined : history.agentOf(sandbox.metadata.uid);
    if (
      sandbox === undefined ||
      view.phase !== 'RUNNING' ||
      agent === undefined ||
      !isAnswering(agent, now)
    )
      return duties;
    if (start === 'READY') return [...duties, ...ofReady(conversation, sandbox, agent)];
    // The clones of one sandbox run one after the other.
    const clones = cluster.conversations.filter(
      (other) => other.status?.sandboxUID === sandbox.metadata.uid && isCloned(other),
    ).length;
    return [
      ...duties,
      due(
        'a start continues in time',
        spec.repository === undefined ? startMs : clones * cloneMs,
        agent.id,
      ),
    ];
  }

  /**
   * A start creates its sandbox at once. While a sandbox of another owner has the name, the start
   * takes another name or shows why it waits; an earlier sandbox of its own owner may delay it.
   */
  function ofBeginning(
    conversation: Conversation,
    due: (rule: string, boundMs: number) => Duty,
  ): readonly Duty[] {
    const name = ownSandboxName(conversationIdOf(conversation));
    const named = cluster.sandboxes.find(({ metadata }) => metadata.name === name);
    if (named === undefined) return [due('a start begins in time', promptMs)];
    if (named.spec.owner === conversation.spec.owner) return [];
    return conversation.status?.start?.errorCode === undefined
      ? [due('a start does not wait for the sandbox of another owner without a reason', takenMs)]
      : [due('a start ends although another owner has its name', maxTakenMs)];
  }

  /** A failed start shows its cause; its conversation releases the sandbox that it alone used. */
  function ofFailedStart(
    { metadata, spec, status }: Conversation,
    due: (rule: string, boundMs: number) => Duty,
  ): readonly Duty[] {
    const shows =
      status?.sandboxStatus === 'ERROR' && status.sandboxStatusReason === status.start?.errorCode;
    // A finalizer of the tenant delays the end of a sandbox that is deleted already.
    const own = cluster.sandboxes.filter(
      (sandbox) =>
        sandbox.metadata.uid === status?.sandboxUID &&
        sandbox.metadata.deletionTimestamp === undefined &&
        sandbox.spec.owner === spec.owner,
    );
    const isUnused = own.some(
      ({ metadata: { ownerReferences = [] } }) =>
        ownerReferences.length > 0 && ownerReferences.every(({ uid }) => uid === metadata.uid),
    );
    return [
      ...(shows ? [] : [due('a failed start is reported in time', promptMs)]),
      ...(isUnused ? [due('the sandbox of a failed start is deleted in time', promptMs)] : []),
    ];
  }

  function ofReady(
    conversation: Conversation,
    sandbox: Sandbox,
    agent: AgentProcess,
  ): readonly Duty[] {
    const { metadata, spec, status } = conversation;
    const stored = agent.volume.conversations.get(conversationIdOf(conversation));
    if (stored === undefined) return [];
    const subject = `conversation ${metadata.name} in ${agent.id}`;
    const duties: Duty[] = [];
    const runs = agent.running.includes(stored);
    const last = spec.messages?.at(-1)?.number ?? 0;
    const delivered = safety.deliveredTo(metadata.uid);
    if (delivered < last && (status?.messages?.lastDelivered ?? 0) < last) {
      const isDoubtful = status?.messages?.inFlight?.number === delivered + 1;
      // A message that may have arrived waits for the end of the run, however long that takes.
      if (!isDoubtful || !runs)
        duties.push({
          rule: 'a message is delivered in time',
          subject: `${subject}, message ${delivered + 1}`,
          boundMs: (isDoubtful ? doubtMs : 0) + (runs ? stepMs : deliveryMs),
        });
    }
    if (runs && status?.executionStatus !== 'running')
      duties.push({
        rule: 'the status of a run is known in time',
        subject: `${subject} since ${stored.runStartedAt}`,
        boundMs: pollMs,
      });
    const isInterrupted =
      stored.status === 'paused' || (stored.status === 'error' && stored.failure === undefined);
    if (
      isInterrupted &&
      stored.wanted &&
      !stored.mayStayPaused &&
      !stored.broken &&
      status?.interruption?.abandonedReason === undefined
    )
      duties.push({
        rule: 'an interrupted run resumes in time',
        subject: `${subject} ${sandbox.metadata.generation}`,
        boundMs: continuationMs,
      });
    return duties;
  }
}

const isCloned = ({ spec }: Conversation): boolean => spec.repository !== undefined;
