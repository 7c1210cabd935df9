import type { SandboxKeys } from '../../../agent/keys.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import { startStatusOf } from '../../../resources/conversation.ts';
import type { Sandbox } from '../../../resources/sandbox.ts';
import { createErrorOf, type CreateError } from '../../sandbox/create-error.ts';
import type { AgentConfigurations } from '../agent-configuration.ts';
import type { RecentAnswers } from '../stored-conversation.ts';
import { ensureSandbox, type ClaimSpare } from './sandbox-creation.ts';
import type { NamedStores } from './sandbox-names.ts';
import type { Stage } from './stage.ts';
import { StartErrorCode, StartFailure } from './start-failure.ts';
import { withDelay, withTransition } from './start-status.ts';
import type { StepDeadlines } from './step-deadlines.ts';

export interface ChooseSandboxOptions {
  readonly client: KubeClient;
  readonly stores: NamedStores;
  readonly keys: Pick<SandboxKeys, 'derivedIds'>;
  readonly answers: Pick<RecentAnswers, 'isJustStored'>;
  readonly configurations: AgentConfigurations;
  readonly deadlines: StepDeadlines;
  /** Returns the reason why a limit rejects a start. Absent: no limit rejects any. */
  readonly refusalOf?:
    | ((
        conversation: CachedConversation,
      ) => { readonly code: string; readonly message: string } | undefined)
    | undefined;
  /**
   * Claims a spare of a pool for a start. Returns undefined when there is none for it. Absent:
   * there are no pools.
   */
  readonly claimSpare?: ClaimSpare | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
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
  ({
    client,
    stores,
    keys,
    answers,
    configurations,
    deadlines,
    refusalOf,
    claimSpare,
    clock,
    logger,
  }: ChooseSandboxOptions): Stage =>
  async ({ stored, status, sandbox }, { signal }) => {
    if (startStatusOf({ status }) !== 'WORKING') return { status };
    const refusal = refusalOf?.(stored);
    if (refusal !== undefined) throw new StartFailure(refusal.code, refusal.message);
    // A start without a valid configuration ends before a sandbox is created.
    await configurations.of(stored);
    let chosen: Sandbox | undefined;
    let createError: CreateError | undefined;
    try {
      chosen = await ensureSandbox({ client, stores, keys, answers, claimSpare }, stored, signal);
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
