import type { AgentEndpoint } from '../../../agent/agent.ts';
import { waitingForBudget } from '../../../resources/conversation.ts';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import type { Sandbox } from '../../../resources/sandbox.ts';
import type { Scope } from '../scope.ts';

/** Stable codes of a failed start, besides those of a failed sandbox; see docs/reasons.md. */
export const StartErrorCode = {
  sandboxNotFound: 'SandboxNotFound',
  sandboxNameTaken: 'SandboxNameTaken',
  sandboxDeleted: 'SandboxDeleted',
  quotaExceeded: 'QuotaExceeded',
  waitingForBudget,
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
  modelAddressUnknown: 'ModelAddressUnknown',
  modelNotAllowed: 'ModelNotAllowed',
  agentRefused: 'AgentRefused',
  agentAnswerInvalid: 'AgentAnswerInvalid',
  stepDeadlineExceeded: 'StepDeadlineExceeded',
} as const;

/** Ends a start in ERROR. The owner may see the message. */
export class StartFailure extends Error {
  override readonly name = 'StartFailure';
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export type StartScope = Readonly<
  Pick<Scope, 'stored' | 'status' | 'sandbox' | 'workingDir' | 'save' | 'signal'>
>;

/** Changes of the scope by a stage. The next stage follows, unless the start waits or fails. */
export interface StageResult {
  readonly status: ConversationStatus;
  readonly sandbox?: Sandbox | undefined;
  readonly endpoint?: AgentEndpoint | undefined;
  readonly workingDir?: string;
  /** Milliseconds until the next reconcile; undefined: a change of the sandbox causes it. */
  readonly wait?: { readonly afterMs: number | undefined };
  readonly failure?: StartFailure;
}

/** Each reconcile runs all stages; a completed stage changes nothing. */
export type Stage = (scope: StartScope) => Promise<StageResult>;

export type AgentStage = (scope: StartScope, endpoint: AgentEndpoint) => Promise<StageResult>;
