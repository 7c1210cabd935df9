import type { AgentEndpoint } from '../../../agent/agent.ts';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import type { Sandbox } from '../../../resources/sandbox.ts';
import type { Scope } from '../scope.ts';

/**
 * Stable codes of a failed start, beside those of a failed sandbox; docs/reasons.md explains each.
 */
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

/** Ends a start in ERROR. The owner may see the message. */
export class StartFailure extends Error {
  override readonly name = 'StartFailure';
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Scope of a reconcile, as the stages of a start read it. */
export type StartScope = Readonly<
  Pick<Scope, 'stored' | 'status' | 'sandbox' | 'workingDir' | 'save' | 'signal'>
>;

/**
 * Changes of the scope by a stage. The next stage follows, unless the start waits or has failed.
 */
export interface StageResult {
  readonly status: ConversationStatus;
  readonly sandbox?: Sandbox | undefined;
  readonly endpoint?: AgentEndpoint | undefined;
  readonly workingDir?: string;
  /**
   * Milliseconds until the next reconcile; undefined: a change of the sandbox causes the next
   * reconcile.
   */
  readonly wait?: { readonly afterMs: number | undefined };
  readonly failure?: StartFailure;
}

/** A stage that is done changes nothing, so each reconcile runs all stages. */
export type Stage = (scope: StartScope) => Promise<StageResult>;

/** Stage that calls the agent. */
export type AgentStage = (scope: StartScope, endpoint: AgentEndpoint) => Promise<StageResult>;
