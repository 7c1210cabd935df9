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
