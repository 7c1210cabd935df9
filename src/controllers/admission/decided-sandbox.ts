import { CapExceeded, capExceededMessage } from '../../quota/caps.ts';
import { conditionUpdate, findCondition, setConditions } from '../../resources/conditions.ts';
import type { QuotaRule } from '../../quota/rules.ts';
import {
  SandboxCondition,
  SandboxReason,
  resumeRequestOf,
  type Sandbox,
  type SandboxState,
} from '../../resources/sandbox.ts';
import { isPausingReason, withView } from '../../status/sandbox-phase.ts';
import type { Decision } from '../../quota/decide.ts';
import type { Outcome } from './cache.ts';
import { resumedAgain, type AutomaticResumes } from '../../quota/automatic-resume.ts';
import type { Expiry } from '../../quota/time-limits.ts';
import { waitingReasonOf } from '../../quota/classify.ts';
import type { Slot } from '../../quota/slot.ts';
import { conversationReferencesOf } from '../../resources/sandbox-owner-references.ts';
import { isReserved, reservedStatus, type ReservationOptions } from '../sandbox/status.ts';

/** Names a sandbox for people: by the conversation that it was made for, or by its own name. */
export function subjectOf(sandbox: Sandbox): string {
  const [conversation] = conversationReferencesOf(sandbox);
  return conversation === undefined
    ? `sandbox ${sandbox.metadata.name}`
    : `conversation ${conversation.name}`;
}

const scopeOf = ({ scope }: QuotaRule): string =>
  scope === 'Owner' ? 'per owner' : 'in this namespace';

/** The message for the owner of an evicted sandbox, which names no object of another owner. */
function evictionMessage(slot: Slot, rule: QuotaRule, preemptor: Slot | undefined): string {
  if (slot.warmSandbox)
    return `The warm sandbox leaves its slot to a sandbox of an owner; limit ${rule.limit}.`;
  if (preemptor === undefined) {
    const comesBack = rule.autoResume === 'All' && (!slot.automatic || slot.unfinished);
    const comeback = comesBack ? '; it comes back when there is room' : '';
    return `Paused because more than ${rule.limit} ${scopeOf(rule)} were active${comeback}.`;
  }
  if (preemptor.owner !== slot.owner)
    return `Paused to make room for a conversation of another owner; limit ${rule.limit}.`;
  const same = rule.scope === 'Owner' ? 'of the same owner' : 'in the same namespace';
  return `Paused to make room for ${subjectOf(preemptor.sandbox)} ${same}; limit ${rule.limit}.`;
}

function expiryMessage(reason: Expiry['reason'], { state, expiry, sandbox }: Slot): string {
  if (reason === SandboxReason.budgetExhausted) return 'Paused: the budget is used up.';
  // The message repeats the limit as the template spells it.
  const limit = expiry?.limit ?? 'the time';
  const unanswered = 'without an answer of its agent';
  if (reason === SandboxReason.idle)
    return `Paused after ${limit} ${state === 'starting' ? unanswered : 'without work'}, the idleTimeout of its template.`;
  // A resumed sandbox whose agent has not answered since the resume has no `activeSinceTime`.
  const wasActive = state !== 'starting' || sandbox.status?.activeSinceTime !== undefined;
  return `Paused after ${limit} ${wasActive ? 'of running' : unanswered}, the maxActiveTime of its template.`;
}

function waitMessage({ bare }: Slot, rule: QuotaRule): string {
  const full = `at most ${rule.limit} ${scopeOf(rule)} may be active at once.`;
  if (!bare || !rule.onExceeded.startsWith('Pause')) return `Waiting for room: ${full}`;
  return `Waiting for room or for an idle sandbox: ${full} A resume without a message pauses no agent that works; a message does.`;
}

interface AdmittedStatus {
  readonly admitted: boolean;
  readonly reason: string;
  readonly message: string;
  readonly waitingSince?: string;
  /** Whether the decision pauses the sandbox, and so makes earlier requests to resume void. */
  readonly paused?: boolean;
  readonly failed?: boolean;
}

function admittedStatusOf(decision: Decision, rule: QuotaRule | undefined): AdmittedStatus {
  const { slot } = decision;
  switch (decision.kind) {
    case 'release':
      return {
        admitted: false,
        reason: SandboxReason.waitingForAdmission,
        message: 'The sandbox has no pod and needs no slot.',
        // A request to resume a failed sandbox stays valid unless the owner pauses the sandbox.
        paused: slot.sandbox.spec.replicas === 0,
      };
    case 'admit': {
      const slots =
        rule === undefined
          ? 'No quota limits the sandbox.'
          : `One of ${rule.limit} that may be active ${scopeOf(rule)}.`;
      return {
        admitted: true,
        reason: SandboxReason.admitted,
        message: decision.resumed ? `There is room again. ${slots}` : slots,
      };
    }
    case 'evict':
      return {
        admitted: false,
        reason: SandboxReason.quota,
        message: evictionMessage(slot, decision.rule, decision.preemptor),
        paused: true,
      };
    case 'expire':
      return {
        admitted: false,
        reason: decision.reason,
        message: expiryMessage(decision.reason, slot),
        paused: true,
      };
    case 'reject': {
      // A sandbox that the quota had paused before keeps that reason, because the quota still
      // resumes it automatically.
      const before = findCondition(
        slot.sandbox.status?.conditions,
        SandboxCondition.admitted,
      )?.reason;
      return {
        admitted: false,
        reason:
          before !== undefined && isPausingReason(before) ? before : SandboxReason.quotaExceeded,
        message: `The limit of ${decision.rule.limit} ${scopeOf(decision.rule)} is reached (${decision.current} active).`,
        paused: true,
      };
    }
    case 'fail':
      return {
        admitted: false,
        reason: CapExceeded.maxSandboxes,
        message: capExceededMessage('maxSandboxes', decision.cap, decision.current),
        failed: true,
      };
    case 'wait':
      return {
        admitted: false,
        reason: waitingReasonOf(slot),
        message: waitMessage(slot, decision.rule),
        waitingSince: new Date(slot.requestedAt).toISOString(),
      };
  }
}

/** `status.automaticResumes` after a decision; undefined after a resume or pause by a person. */
function automaticResumesAfter(decision: Decision, now: string): AutomaticResumes | undefined {
  const before = decision.slot.sandbox.status?.automaticResumes;
  switch (decision.kind) {
    case 'admit':
      return decision.resumed ? resumedAgain(before, now) : undefined;
    case 'evict':
    case 'expire':
      return decision.slot.automatic ? before : undefined;
    case 'release':
    case 'reject':
    case 'fail':
      return undefined;
    case 'wait':
      return before;
  }
}

/**
 * The sandbox with the status that a decision gives it. The write of an admission also reserves the
 * slot, so that the sandbox controller may create the pod.
 */
export function decidedSandbox(
  decision: Decision,
  rule: QuotaRule | undefined,
  reservation: ReservationOptions,
): Sandbox {
  const { now } = reservation;
  const { sandbox } = decision.slot;
  const {
    admitted,
    reason,
    message,
    waitingSince,
    paused = false,
    failed = false,
  } = admittedStatusOf(decision, rule);
  const {
    waitingSinceTime: _since,
    automaticResumes: _resumes,
    observedResumeRequest,
    ...old
  } = decision.kind === 'admit' && !isReserved(sandbox)
    ? reservedStatus(sandbox, reservation)
    : (sandbox.status ?? {});
  const automaticResumes = automaticResumesAfter(decision, now);
  const seen = paused ? resumeRequestOf(sandbox) : observedResumeRequest;
  const updates = [
    conditionUpdate(SandboxCondition.admitted, admitted, reason, message),
    ...(failed ? [conditionUpdate(SandboxCondition.failed, true, reason, message)] : []),
  ];
  const status: SandboxState = {
    ...old,
    ...(waitingSince === undefined ? {} : { waitingSinceTime: waitingSince }),
    ...(seen === undefined ? {} : { observedResumeRequest: seen }),
    ...(automaticResumes === undefined ? {} : { automaticResumes }),
    conditions: setConditions(old.conditions, updates, sandbox.metadata.generation, now),
  };
  return { ...sandbox, status: withView(sandbox, status, now) };
}

/** The slot while the outcome of a write is unknown: taken if taken before or after the write. */
export function assumedSlot({ kind, slot }: Decision): Outcome {
  switch (kind) {
    case 'admit':
      return { state: 'starting', taken: true };
    case 'evict':
    case 'expire':
    case 'release':
      return { state: 'freeing', taken: true };
    case 'wait':
    case 'reject':
    case 'fail':
      return { state: 'none', taken: slot.taken };
  }
}
