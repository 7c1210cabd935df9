import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import { beginningOf } from '../../../resources/plain-text.ts';
import { SandboxReason, type Sandbox } from '../../../resources/sandbox.ts';
import type { SandboxView } from '../../../status/sandbox-phase.ts';
import {
  interruptionReason,
  pendingInterruption,
  unseenInterruptionEpoch,
  withUserPause,
} from './interruption.ts';
import { abandonedReasonOf, messageOf, nextInterruption } from './run-resume.ts';

/** Maximum length of a detail, in characters. */
const maxDetailLength = 2048;
const unresponsiveDetail =
  'The agent does not answer, so whether the run proceeds is unknown. The next answer of the agent decides.';

/** Marks a running run as paused: the agent's reports can not be read, for the reason `why`. */
export function withRunUnknown(
  status: ConversationStatus,
  { sandbox, why, now }: Readonly<Record<'why' | 'now', string>> & { readonly sandbox: Sandbox },
): ConversationStatus {
  if (status.executionStatus !== 'running') return status;
  const interruption = nextInterruption(
    status.interruption,
    interruptionReason(status.agentEpoch, sandbox.status ?? {}),
    now,
  );
  const executionDetail = `The operator can not read what the agent reports, so whether the run proceeds is unknown: ${why}`;
  return {
    ...status,
    executionStatus: 'paused',
    executionDetail: beginningOf(executionDetail, maxDetailLength),
    interruption,
  };
}

/** Statuses of a run that can not proceed without its sandbox. */
const unfinished: ReadonlySet<unknown> = new Set(['running', 'waiting_for_confirmation', 'paused']);

/** Ends an unfinished run, because a deleted sandbox does not return. */
function withSandboxGone(status: ConversationStatus): ConversationStatus {
  if (!unfinished.has(status.executionStatus)) return status;
  const { interruption: _interruption, ...rest } = status;
  return {
    ...rest,
    executionStatus: 'error',
    executionDetail: 'The sandbox is gone, and the run with it.',
  };
}

/** Marks the run as error. Keeps its interruption, so that the run resumes with the sandbox. */
function withSandboxFailed(
  status: ConversationStatus,
  { message }: SandboxView,
): ConversationStatus {
  if (!unfinished.has(status.executionStatus)) return status;
  const executionDetail = `The sandbox has failed, so the run does not proceed: ${message}`;
  return {
    ...status,
    executionStatus: 'error',
    executionDetail: beginningOf(executionDetail, maxDetailLength),
  };
}

/** Whether only the sandbox has failed: the run is interrupted, and the operator can resume it. */
const isErrorOfSandbox = (status: ConversationStatus): boolean => {
  const pending = pendingInterruption(status);
  return (
    status.executionStatus === 'error' &&
    pending !== undefined &&
    abandonedReasonOf(pending) === undefined
  );
};

interface AwayFacts {
  /** Id of the conversation at its agent. */
  readonly id: string;
  readonly sandbox: Sandbox | undefined;
  readonly view: SandboxView;
  readonly now: string;
}

/**
 * Returns the status of a conversation whose sandbox does not run. A run in progress becomes
 * interrupted. The stored reason decides whether the operator resumes the run later.
 */
export function withSandboxAway(status: ConversationStatus, facts: AwayFacts): ConversationStatus {
  const { view } = facts;
  if (view.phase === 'MISSING') return withSandboxGone(status);
  const away = withRunInterrupted(status, facts);
  if (view.phase === 'ERROR') return withSandboxFailed(away, view);
  if (away.interruption === undefined || !isErrorOfSandbox(away)) return away;
  return { ...away, executionStatus: 'paused', executionDetail: messageOf(away.interruption) };
}

function withRunInterrupted(
  status: ConversationStatus,
  { id, sandbox, view, now }: AwayFacts,
): ConversationStatus {
  const interruptions = sandbox?.status ?? {};
  const unseenEpoch = unseenInterruptionEpoch(status, id, interruptions);
  if (
    (status.executionStatus === 'running' || unseenEpoch !== undefined) &&
    pendingInterruption(status) === undefined
  ) {
    const seenIn = unseenEpoch ?? status.agentEpoch;
    const reason = interruptionReason(
      seenIn,
      interruptions,
      view.phase === 'PAUSED' ? view : undefined,
    );
    const interruption = nextInterruption(status.interruption, reason, now);
    return {
      ...status,
      executionStatus: 'paused',
      executionDetail:
        view.reason === SandboxReason.agentSilent ? unresponsiveDetail : messageOf(interruption),
      ...(seenIn === undefined ? {} : { agentEpoch: seenIn }),
      interruption,
    };
  }
  const pausedByOwner = view.phase === 'PAUSED' && view.reason === SandboxReason.user;
  const interruption = withUserPause(
    status,
    pausedByOwner ? { lastUserPauseEpoch: Infinity } : interruptions,
  );
  if (interruption === status.interruption || interruption === undefined) return status;
  return {
    ...status,
    ...(status.executionStatus === 'paused' ? { executionDetail: messageOf(interruption) } : {}),
    interruption,
  };
}
