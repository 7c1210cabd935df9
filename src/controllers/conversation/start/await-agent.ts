import type { SandboxKeys } from '../../../agent/keys.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import { agentEndpointOf } from '../../../agent/kinds.ts';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import { SandboxReason, hasRun, sandboxes, type Sandbox } from '../../../resources/sandbox.ts';
import { viewOfSandbox, type SandboxView } from '../../../status/sandbox-phase.ts';
import { failureIn } from '../../sandbox/failure.ts';
import { storedObject } from '../../stored-object.ts';
import { type Stage, type StageResult, StartErrorCode, StartFailure } from './stage.ts';
import { withDeadline, withDelay } from './start-status.ts';
import type { DeadlineScope, StepDeadlines } from './step-deadlines.ts';

export interface AwaitAgentOptions {
  readonly client: KubeClient;
  readonly keys: SandboxKeys;
  readonly deadlines: StepDeadlines;
}

/** Waits until the agent answers. Ends the start when the sandbox is deleted or has failed. */
export const awaitAgent =
  (options: AwaitAgentOptions): Stage =>
  async ({ stored, status, sandbox, signal }) => {
    // The cache may lag behind a resume of a failed sandbox, so only the version of the API server
    // ends the start.
    const isFailed = sandbox !== undefined && viewOfSandbox(sandbox).phase === 'ERROR';
    const current = isFailed
      ? await storedObject({ client: options.client, signal }, sandboxes, sandbox)
      : sandbox;
    return { sandbox: current, ...agentOf({ stored, status, sandbox: current }, options) };
  };

/**
 * Whether the agent's container runs, but the agent does not answer, and the sandbox itself has no
 * deadline for the answer.
 */
const isAwaitingAgent = (sandbox: Sandbox | undefined, { reason }: SandboxView): boolean =>
  reason === SandboxReason.agentSilent ||
  (reason === SandboxReason.waitingForAgent && sandbox !== undefined && hasRun(sandbox));

/** The agent's endpoint, if the sandbox is RUNNING. Throws `StartFailure` if it never will be. */
export function agentOf(
  { stored, status, sandbox }: DeadlineScope,
  { keys, deadlines }: Omit<AwaitAgentOptions, 'client'>,
): Pick<StageResult, 'status' | 'endpoint' | 'wait'> {
  const view = viewOfSandbox(sandbox);
  const waiting = (next: ConversationStatus) => ({
    status: next,
    wait: { afterMs: deadlines.leftMs({ stored, status: next, sandbox }) },
  });
  switch (view.phase) {
    case 'MISSING':
      throw new StartFailure(
        StartErrorCode.sandboxDeleted,
        'The sandbox was deleted during the start.',
      );
    case 'ERROR':
      throw new StartFailure(view.reason, view.message);
    case 'RUNNING': {
      const running = withDelay(status, undefined);
      const endpoint = sandbox && agentEndpointOf(sandbox, keys);
      return endpoint === undefined ? waiting(running) : { status: running, endpoint };
    }
    case 'STARTING':
    case 'PAUSED': {
      if (view.reason === SandboxReason.quotaExceeded)
        throw new StartFailure(StartErrorCode.quotaExceeded, view.message);
      const delayed = withDelay(status, failureIn(view));
      // The time of a step counts only while a container runs in which the step can proceed.
      const isTimed = isAwaitingAgent(sandbox, view);
      return waiting(
        isTimed
          ? deadlines.check({ stored, status: delayed, sandbox })
          : withDeadline(delayed, undefined),
      );
    }
  }
}
