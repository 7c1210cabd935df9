import { findCondition, setCondition } from '../../resources/conditions.ts';
import { conversations as conversationKind } from '../../resources/conversation.ts';
import type { QuotaRule } from '../../resources/quota-rules.ts';
import {
  SandboxCondition,
  SandboxReason,
  isPausingReason,
  resumeRequestOf,
  viewOfSandbox,
  type Sandbox,
  type SandboxState,
} from '../../resources/sandbox.ts';
import type { Step } from './domain.ts';
import type { Unsettled } from './slot-index.ts';
import type { Expiry, Slot } from '../../quota/slot.ts';

/** The conversation that a sandbox was made for, or else the sandbox, as people know it. */
export function nameOf({ metadata }: Sandbox): string {
  const conversation = metadata.ownerReferences?.find(({ kind }) => kind === conversationKind.kind);
  return conversation === undefined ? `sandbox ${metadata.name}` : `conversation ${conversation.name}`;
}

const perWhom = ({ scope }: QuotaRule): string => (scope === 'Owner' ? 'per owner' : 'in this namespace');

/** What is said to the owner of the victim: never a name of somebody else's. */
function evictionMessage(slot: Slot, rule: QuotaRule, beneficiary: Slot | undefined): string {
  if (beneficiary === undefined) {
    const comesBack = rule.autoResume === 'All' ? '; it comes back when there is room' : '';
    return `Paused because more than ${rule.limit} ${perWhom(rule)} were active${comesBack}.`;
  }
  if (beneficiary.owner !== slot.owner) return `Paused to make room for a conversation of another owner; limit ${rule.limit}.`;
  const same = rule.scope === 'Owner' ? 'of the same owner' : 'in the same namespace';
  return `Paused to make room for ${nameOf(beneficiary.sandbox)} ${same}; limit ${rule.limit}.`;
}

/** `limit` is the time as it stands in the template. */
const expiryMessage = (reason: Expiry['reason'], limit = 'the time'): string =>
  reason === SandboxReason.idle
    ? `Paused after ${limit} without work, the idleTimeout of its template.`
    : `Paused after ${limit} of running, the maxActiveTime of its template.`;

interface Verdict {
  readonly admitted: boolean;
  readonly reason: string;
  readonly message: string;
  readonly waitingSince?: string;
  /** It is paused from here on: requests to resume from before do not count any more. */
  readonly paused?: boolean;
}

function verdictOf(step: Step, rule: QuotaRule | undefined): Verdict {
  const { slot } = step;
  switch (step.kind) {
    case 'release':
      return { admitted: false, reason: SandboxReason.waitingForAdmission, message: 'It has no pod and needs no slot.' };
    case 'admit': {
      const slots = rule === undefined ? 'No quota limits it.' : `One of ${rule.limit} that may be active ${perWhom(rule)}.`;
      return { admitted: true, reason: SandboxReason.admitted, message: step.resumed ? `There is room again. ${slots}` : slots };
    }
    case 'evict':
      return { admitted: false, reason: SandboxReason.quota, message: evictionMessage(slot, step.rule, step.beneficiary), paused: true };
    case 'expire':
      return {
        admitted: false,
        reason: step.reason,
        message: expiryMessage(step.reason, slot.expiry?.limit),
        paused: true,
      };
    case 'reject': {
      // One that the quota had paused before is still to come back.
      const before = findCondition(slot.sandbox.status?.conditions, SandboxCondition.admitted)?.reason;
      return {
        admitted: false,
        reason: before !== undefined && isPausingReason(before) ? before : SandboxReason.quotaExceeded,
        message: `The limit of ${step.rule.limit} ${perWhom(step.rule)} is reached (${step.current} active).`,
        paused: true,
      };
    }
    case 'wait':
      return {
        admitted: false,
        reason: SandboxReason.waitingForQuota,
        message: `Waiting for room: at most ${step.rule.limit} ${perWhom(step.rule)} may be active at once.`,
        waitingSince: new Date(slot.requestedAt).toISOString(),
      };
  }
}

/** The sandbox as a step leaves it. */
export function applied(step: Step, rule: QuotaRule | undefined, now: string): Sandbox {
  const { sandbox } = step.slot;
  const { admitted, reason, message, waitingSince, paused = false } = verdictOf(step, rule);
  const { waitingSince: _since, resumeRequestSeen, ...old } = sandbox.status ?? {};
  const seen = paused ? resumeRequestOf(sandbox) : resumeRequestSeen;
  const status: SandboxState = {
    ...old,
    ...(waitingSince === undefined ? {} : { waitingSince }),
    ...(seen === undefined ? {} : { resumeRequestSeen: seen }),
    conditions: [
      ...setCondition(
        old.conditions,
        {
          type: SandboxCondition.admitted,
          status: admitted ? 'True' : 'False',
          reason,
          message,
          observedGeneration: sandbox.metadata.generation,
        },
        now,
      ),
    ],
  };
  const view = viewOfSandbox({ ...sandbox, status });
  return { ...sandbox, status: { ...status, phase: view.phase, reason: view.reason, message: view.message } };
}

/** What a sandbox counts as until it is known what became of the write: always the most that it may be. */
export function meanwhile({ kind, slot }: Step): Pick<Unsettled, 'state' | 'taken'> {
  switch (kind) {
    case 'admit':
      return { state: 'starting', taken: true };
    case 'evict':
    case 'expire':
    case 'release':
      return { state: 'freeing', taken: true };
    case 'wait':
    case 'reject':
      return { state: 'none', taken: slot.taken };
  }
}
