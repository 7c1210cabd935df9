import { conditionUpdate, type ConditionUpdate } from './conditions.ts';

/**
 * Type of the condition that says whether a sandbox is paused, on the sandbox and on each
 * conversation that uses the sandbox.
 */
export const pausedType = 'Paused';
export const notPausedReason = 'NotPaused';

const messages: Readonly<Record<string, string>> = {
  User: 'The owner has paused the sandbox.',
  Quota: 'A quota has paused the sandbox.',
  QuotaExceeded: 'A quota has refused to run the sandbox.',
  Idle: 'The sandbox was idle for the idleTimeout of its template.',
  MaxActiveTime: 'The sandbox was active for the maxActiveTime of its template.',
};

/**
 * The condition Paused. The message is constant for each reason, because caches hold the condition
 * of every stored object.
 */
export const pausedCondition = (isPaused: boolean, reason: string): ConditionUpdate =>
  isPaused
    ? conditionUpdate(pausedType, true, reason, messages[reason] ?? 'The sandbox is paused.')
    : conditionUpdate(pausedType, false, notPausedReason, 'The sandbox is not paused.');
