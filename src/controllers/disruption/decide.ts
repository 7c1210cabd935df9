import { isUnderWay, isWorking } from '../../quota/idleness.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { CachedPod } from '../../resources/cached-core.ts';
import {
  disruptionAnnotations,
  keepsNode,
  letsNodeGo,
  type DisruptionAnnotation,
} from '../../resources/pod-disruption.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';

/** Pure decisions about whether the pod of a sandbox keeps its node. */

/**
 * Time for which nothing has to work before a pod lets its node go. An agent that begins and ends a
 * run every second costs no more than two writes in this time.
 */
export const quietMs = 60_000;

/**
 * Whether the end of the pod would interrupt this conversation: its start, its run, a run or a
 * message that is about to be resumed or delivered, or a question to a person, which some agents
 * forget with their container.
 */
export const needsNode = (conversation: CachedConversation): boolean =>
  isUnderWay(conversation) ||
  isWorking(conversation) ||
  conversation.status?.executionStatus === 'waiting_for_confirmation';

export type DisruptionChange = Readonly<Partial<Record<DisruptionAnnotation, string | null>>>;

export interface ObservedDisruption {
  readonly pod: CachedPod;
  /** Annotations of the template win, so that people can decide for a whole template. */
  readonly template: SandboxTemplate | undefined;
  readonly isNeeded: boolean;
  /** Milliseconds since the node was needed, as far as this process knows. */
  readonly quietForMs: number;
}

export interface DisruptionDecision {
  /** The annotations to write; null removes one. Absent: the pod has what it should have. */
  readonly change?: DisruptionChange;
  /** Delay before the pod may let go; absent when nothing is to be waited for. */
  readonly requeueAfterMs?: number;
}

export function decideDisruption(observed: ObservedDisruption): DisruptionDecision {
  const { pod, template, isNeeded, quietForMs } = observed;
  const wanted = isNeeded ? keepsNode : letsNodeGo;
  const ofTemplate = template?.spec.podTemplate.metadata?.annotations ?? {};
  const present = pod.metadata.annotations ?? {};
  const changed = disruptionAnnotations.filter(
    (key) => ofTemplate[key] === undefined && present[key] !== wanted[key],
  );
  if (changed.length === 0) return {};
  if (!isNeeded && quietForMs < quietMs) return { requeueAfterMs: quietMs - quietForMs };
  return { change: Object.fromEntries(changed.map((key) => [key, wanted[key] ?? null])) };
}
