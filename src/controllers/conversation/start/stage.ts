import type { AgentEndpoint } from '../../../agent/agent.ts';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import type { Sandbox } from '../../../resources/sandbox.ts';
import type { SaveStatus, Scope } from '../scope.ts';

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
export type StartScope = Readonly<Pick<Scope, 'stored' | 'status' | 'sandbox' | 'workingDir'>>;

export interface StageContext {
  readonly save: SaveStatus;
  readonly signal: AbortSignal;
}

/** Context of the stages that call the agent. */
export interface AgentStageContext extends StageContext {
  readonly endpoint: AgentEndpoint;
}

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

export type Stage<C = StageContext> = (scope: StartScope, context: C) => Promise<StageResult>;

/**
 * Runs stages in order and applies their changes, until a stage waits or fails. Returns what the
 * stage waits for.
 */
export async function runStages<C>(
  stages: readonly Stage<C>[],
  scope: Scope,
  context: C,
): Promise<StageResult['wait']> {
  for (const stage of stages) {
    const { wait, failure, ...changes } = await stage(scope, context);
    Object.assign(scope, changes);
    if (failure !== undefined) throw failure;
    if (wait !== undefined) return wait;
  }
  return undefined;
}
