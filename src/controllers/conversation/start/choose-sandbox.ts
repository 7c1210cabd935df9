import { isoTime } from '@conversation-operator/base/clock';
import type { Runtime } from '@conversation-operator/base/runtime';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import { startStatusOf } from '../../../resources/conversation.ts';
import type { Sandbox } from '../../../resources/sandbox.ts';
import { createErrorOf, retryAfterMs, type CreateError } from '../../sandbox/create-error.ts';
import { FailurePolicy } from '../../sandbox/failure.ts';
import type { AgentConfigurations } from '../agent-configuration.ts';
import { ensureSandbox, type StartAccess } from './sandbox-creation.ts';
import type { Stage } from './stage.ts';
import { StartErrorCode, StartFailure } from './start-failure.ts';
import { withDeadline, withDelay, withTransition } from './start-status.ts';
import type { StepDeadlines } from './step-deadlines.ts';

export interface ChooseSandboxOptions extends StartAccess, Pick<Runtime, 'clock' | 'logger'> {
  readonly configurations: AgentConfigurations;
  readonly deadlines: StepDeadlines;
  /** Returns the reason why a limit rejects a start. Absent: no limit rejects any. */
  readonly refusalOf?:
    | ((
        conversation: CachedConversation,
      ) => { readonly code: string; readonly message: string } | undefined)
    | undefined;
}

/** Delay before the creation of a sandbox is tried again. */
const retryMs = 1_000;

/** Cause of the delay of a start whose sandbox can not be created yet. */
const nameInUse = {
  code: StartErrorCode.sandboxNameTaken,
  message: 'The sandbox of an earlier conversation with this ID is still in use.',
};

/** Creates the sandbox of a start, or joins the sandbox that the conversation names. */
export const chooseSandbox =
  (options: ChooseSandboxOptions): Stage =>
  async ({ stored, status, sandbox }, { signal }) => {
    const { configurations, deadlines, clock, logger } = options;
    if (startStatusOf({ status }) !== 'WORKING') return { status };
    const refusal = options.refusalOf?.(stored);
    if (refusal !== undefined) throw new StartFailure(refusal.code, refusal.message);
    // A start without a valid configuration ends before a sandbox is created.
    await configurations.of(stored);
    let chosen: Sandbox | undefined;
    let createError: CreateError | undefined;
    try {
      chosen = await ensureSandbox(options, stored, signal);
    } catch (error) {
      createError = createErrorOf(error, 'sandbox');
      if (createError === undefined) throw error;
      logger.info('creation was refused', {
        conversation: stored.metadata.name,
        what: 'sandbox',
        code: createError.code,
        error,
      });
    }
    if (chosen === undefined) {
      const delayed = withDelay(status, createError ?? nameInUse);
      // The time of a wait for room in a quota counts for no deadline.
      if (createError?.policy === FailurePolicy.waiting) {
        const startingForMs = clock.now() - Date.parse(stored.metadata.creationTimestamp);
        return {
          status: withDeadline(delayed, undefined),
          wait: { afterMs: retryAfterMs(startingForMs) },
        };
      }
      return {
        status: deadlines.check({ stored, status: delayed, sandbox }),
        wait: { afterMs: retryMs },
      };
    }
    const { name, uid } = chosen.metadata;
    const named = { ...withDelay(status, undefined), sandboxName: name, sandboxUID: uid };
    return {
      sandbox: chosen,
      status: withTransition(named, 'WAITING_FOR_SANDBOX', isoTime(clock)),
    };
  };
