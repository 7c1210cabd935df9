import { z } from 'zod';
import { count, described, listMap, optional, text, timestamp } from './schema.ts';

export const conditionSchema = z.object({
  type: described(z.string().min(1).max(316), 'Type of the condition, in CamelCase.'),
  status: described(z.enum(['True', 'False', 'Unknown']), 'True, False or Unknown.'),
  observedGeneration: optional(count(), 'Generation of the spec that the condition describes.'),
  lastTransitionTime: described(
    timestamp(),
    'Time at which the status of the condition last changed.',
  ),
  reason: described(
    text(1024),
    'Stable code of the cause, in CamelCase; docs/reasons.md lists all codes.',
  ),
  message: described(text(32_768), 'Explanation for people.'),
});
export type Condition = Readonly<z.infer<typeof conditionSchema>>;

export const conditionsSchema = z
  .array(conditionSchema)
  .max(32)
  .optional()
  .meta({ ...listMap('type'), description: 'Conditions of the object, one for each type.' });

export const findCondition = (
  conditions: readonly Condition[] | undefined,
  type: string,
): Condition | undefined => conditions?.find((condition) => condition.type === type);

export const isTrue = (conditions: readonly Condition[] | undefined, type: string): boolean =>
  findCondition(conditions, type)?.status === 'True';

/** A condition that a controller sets, without its generation and transition time. */
export type ConditionUpdate = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>;

export const conditionUpdate = (
  type: string,
  isTrue: boolean,
  reason: string,
  message: string,
): ConditionUpdate => ({ type, status: isTrue ? 'True' : 'False', reason, message });

/** Sets some conditions; the others stay. `lastTransitionTime` only changes with `status`. */
export function setConditions(
  conditions: readonly Condition[] | undefined,
  updates: readonly ConditionUpdate[],
  observedGeneration: number,
  now: string,
): Condition[] {
  const next = new Map(conditions?.map((condition) => [condition.type, condition]));
  for (const update of updates) {
    const old = next.get(update.type);
    const lastTransitionTime = old?.status === update.status ? old.lastTransitionTime : now;
    next.set(update.type, { ...update, observedGeneration, lastTransitionTime });
  }
  return [...next.values()];
}

/** Type of the condition of a paused sandbox, and of each conversation in it. */
export const pausedType = 'Paused';
export const notPausedReason = 'NotPaused';

const messages: Readonly<Record<string, string>> = {
  User: 'The owner has paused the sandbox.',
  Quota: 'A quota has paused the sandbox.',
  QuotaExceeded: 'A quota has refused to run the sandbox.',
  Idle: 'The sandbox was idle for the idleTimeout of its template.',
  MaxActiveTime: 'The sandbox was active for the maxActiveTime of its template.',
  BudgetExhausted: 'The budget for models is used up.',
};

/** The condition Paused. Each reason has one message, so that caches can share the text. */
export const pausedCondition = (isPaused: boolean, reason: string): ConditionUpdate =>
  isPaused
    ? conditionUpdate(pausedType, true, reason, messages[reason] ?? 'The sandbox is paused.')
    : conditionUpdate(pausedType, false, notPausedReason, 'The sandbox is not paused.');
