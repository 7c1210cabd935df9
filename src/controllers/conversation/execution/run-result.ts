import type { Logger } from '@conversation-operator/base/logger';
import type { Clock } from '@conversation-operator/base/clock';
import type { AgentClient } from '../../../agent/agent.ts';
import { withoutSecrets, type NamedSecret } from '../../../agent/redaction.ts';
import type {
  ConversationStatus,
  ExecutionStatus,
} from '../../../resources/conversation-status.ts';
import { beginningOnOneLine } from '../../../resources/plain-text.ts';
import { maxResultMessage, type RunResult } from '../../../resources/run-result.ts';
import type { PolledRun } from './run-observer.ts';
import { abortedAfter } from '../../agent-calls/aborted-after.ts';

export interface RunResultOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly agent: Pick<AgentClient, 'lastResult'>;
}

interface RunChange {
  readonly before: ConversationStatus;
  readonly status: ConversationStatus;
  readonly signal: AbortSignal;
}

/** Maximum time that a run's status waits for the read of its result. */
const timeoutMs = 2_000;

const underWay: ReadonlySet<ExecutionStatus | undefined> = new Set([
  undefined,
  'running',
  'waiting_for_confirmation',
]);
/** Statuses of an agent that has stopped by itself. Only these have a reason and an exit code. */
const completed: ReadonlySet<ExecutionStatus | undefined> = new Set(['finished', 'idle']);

/** Removes the result of the previous run once another run is in progress. */
export function withoutEarlierResult(status: ConversationStatus): ConversationStatus {
  const { lastResult, ...rest } = status;
  return lastResult === undefined || !underWay.has(status.executionStatus) ? status : rest;
}

/**
 * The status with the result of its run. The result is read once after each activity of an agent:
 * at the end of a run, or after a run that no poll has seen. A result that can not be read in time
 * is absent, because the status must not wait for it.
 */
export async function withRunResult(
  { agent, clock, logger }: RunResultOptions,
  { endpoint, state, secrets }: Pick<PolledRun, 'endpoint' | 'state' | 'secrets'>,
  { before, status, signal }: RunChange,
): Promise<ConversationStatus> {
  const isKnown =
    before.executionStatus === status.executionStatus &&
    before.lastActivityTime === status.lastActivityTime;
  if (isKnown || underWay.has(status.executionStatus) || state.lastUserMessageId === undefined)
    return status;
  const { lastResult: _earlier, ...rest } = status;
  const timeout = abortedAfter(clock, timeoutMs, signal);
  try {
    const result = await agent.lastResult(endpoint, state, { signal: timeout.signal });
    return result === undefined
      ? rest
      : { ...rest, lastResult: storedResult(result, status, await secrets()) };
  } catch (error) {
    if (signal.aborted) throw error;
    logger.debug('the result of a run could not be read', { conversation: state.id, error });
    return rest;
  } finally {
    timeout.cancel();
  }
}

function storedResult(
  { message, reason, exitCode }: RunResult,
  { executionStatus }: ConversationStatus,
  secrets: readonly NamedSecret[],
): RunResult {
  // Secrets are removed before the text is truncated, because a truncated secret is not found.
  const searched = withoutSecrets(
    message ?? '',
    secrets.map(({ value }) => value),
  );
  const words = beginningOnOneLine(searched, maxResultMessage);
  return {
    ...(completed.has(executionStatus) && reason !== undefined
      ? { reason, ...(exitCode === undefined ? {} : { exitCode }) }
      : {}),
    ...(words === '' ? {} : { message: words }),
  };
}
