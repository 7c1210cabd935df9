import { z } from 'zod';
import { listMap, timestamp } from './schema.ts';

/** One condition, as in the Kubernetes API conventions. */
export const conditionSchema = z.object({
  type: z.string().min(1).max(316).meta({ description: 'Type of the condition, in CamelCase.' }),
  status: z.enum(['True', 'False', 'Unknown']).meta({ description: 'True, False or Unknown.' }),
  observedGeneration: z.int().min(0).optional().meta({ description: 'Generation of the spec that the condition describes.' }),
  lastTransitionTime: timestamp().meta({ description: 'Time at which the status of the condition last changed.' }),
  reason: z.string().max(1024).meta({ description: 'Stable code of the cause, in CamelCase; docs/reasons.md lists all codes.' }),
  message: z.string().max(32_768).meta({ description: 'Explanation for people.' }),
});
export type Condition = Readonly<z.infer<typeof conditionSchema>>;

export const conditionsSchema = z
  .array(conditionSchema)
  .max(32)
  .optional()
  .meta({ ...listMap('type'), description: 'Conditions of the object, one for each type.' });

export const findCondition = (conditions: readonly Condition[] | undefined, type: string): Condition | undefined =>
  conditions?.find((condition) => condition.type === type);

export const isTrue = (conditions: readonly Condition[] | undefined, type: string): boolean =>
  findCondition(conditions, type)?.status === 'True';

/** A condition as a controller decides it; generation and transition time follow when it is set. */
export type ConditionUpdate = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>;

/** The conditions with several of them set, each observed in one generation of the object. */
export const setConditions = (
  conditions: readonly Condition[] | undefined,
  updates: readonly ConditionUpdate[],
  observedGeneration: number,
  now: string,
): Condition[] => [
  ...updates.reduce<readonly Condition[]>((all, update) => setCondition(all, { ...update, observedGeneration }, now), conditions ?? []),
];

/**
 * The conditions with one set. `lastTransitionTime` moves only when the status changes; a call that changes nothing returns
 * the same array, so that a caller can skip the write.
 */
export function setCondition(
  conditions: readonly Condition[] | undefined,
  next: Omit<Condition, 'lastTransitionTime'>,
  now: string,
): readonly Condition[] {
  const present = conditions ?? [];
  const old = findCondition(present, next.type);
  const condition: Condition = { ...next, lastTransitionTime: old?.status === next.status ? old.lastTransitionTime : now };
  if (old === undefined) return [...present, condition];
  const same =
    old.status === condition.status &&
    old.reason === condition.reason &&
    old.message === condition.message &&
    old.observedGeneration === condition.observedGeneration;
  return same ? present : present.map((entry) => (entry === old ? condition : entry));
}
