import { plainText } from '../../../agent/plain-text.ts';
import type { Conversation, ConversationStatus, StartState, StartStatus } from '../../../resources/conversation.ts';

/** Stable codes of what makes a start fail, beside those of its sandbox; docs/reasons.md explains each. */
export const StartErrorCode = {
  sandboxNotFound: 'SandboxNotFound',
  sandboxNameTaken: 'SandboxNameTaken',
  sandboxDeleted: 'SandboxDeleted',
  quotaExceeded: 'QuotaExceeded',
  repositoryUnavailable: 'RepositoryUnavailable',
  repositoryAccessDenied: 'RepositoryAccessDenied',
  repositoryTooLarge: 'RepositoryTooLarge',
  branchNotFound: 'BranchNotFound',
  workspaceUnusable: 'WorkspaceUnusable',
  volumeFull: 'VolumeFull',
  providerNotConfigured: 'ProviderNotConfigured',
  setupFailed: 'SetupFailed',
  modelCredentialMissing: 'ModelCredentialMissing',
  modelNotConfigured: 'ModelNotConfigured',
  modelNotAllowed: 'ModelNotAllowed',
  agentRefused: 'AgentRefused',
  stepDeadlineExceeded: 'StepDeadlineExceeded',
} as const;

/** Ends a start in ERROR. The message is safe to show to the owner. */
export class StartFailure extends Error {
  override readonly name = 'StartFailure';
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

const longestError = 2048;

/** The start with one more status. READY and ERROR are final: asking for more after them is a mistake in the code. */
export function withTransition(status: ConversationStatus, next: StartStatus, time: string, detail?: string): ConversationStatus {
  const { transitions = [], steps } = status.start ?? {};
  return {
    ...status,
    start: {
      ...(steps === undefined ? {} : { steps }),
      status: next,
      transitions: [...transitions, { status: next, time, ...(detail === undefined ? {} : { detail }) }],
    },
  };
}

export function withFailure(status: ConversationStatus, failure: StartFailure, time: string): ConversationStatus {
  const error = plainText(failure.message, longestError);
  const failed = withTransition(status, 'ERROR', time, error);
  return { ...failed, start: { ...startOf(failed), errorCode: failure.code, error } };
}

export function withDeadline(status: ConversationStatus, deadline: string | undefined): ConversationStatus {
  if (status.start === undefined || status.start.deadline === deadline) return status;
  const { deadline: _, ...start } = status.start;
  return { ...status, start: deadline === undefined ? start : { ...start, deadline } };
}

/** What keeps the start where it is, or undefined when nothing does; the next status takes it away. */
export function withTrouble(status: ConversationStatus, trouble: { readonly code: string; readonly message: string } | undefined) {
  if (status.start === undefined || (status.start.errorCode === trouble?.code && status.start.error === trouble?.message)) return status;
  const { errorCode: _code, error: _error, ...start } = status.start;
  return { ...status, start: trouble === undefined ? start : { ...start, errorCode: trouble.code, error: trouble.message } };
}

const startOf = (status: ConversationStatus): StartState => status.start ?? { status: 'WORKING', transitions: [] };

const retryMs = 1_000;
const longestRetryMs = 20_000;

/**
 * How long to leave an agent alone that has failed in a step: as long as it has held a worker until it was given up. Others' starts
 * need the workers too.
 */
export const restMs = (heldMs: number): number => Math.min(longestRetryMs, Math.max(retryMs, heldMs));

/** Milliseconds that the start has spent in its present status, given the time of the next one. */
export function stageMs(conversation: Pick<Conversation, 'status'>, now: number): number {
  const last = conversation.status?.start?.transitions.at(-1);
  return last === undefined ? 0 : Math.max(0, now - Date.parse(last.time));
}
