import type { Metrics } from '../../observability/metrics.ts';
import type { Slot } from '../../quota/slot.ts';

const states = ['active', 'waiting', 'paused'] as const;

const stateOf = ({ state, taken }: Slot): (typeof states)[number] | undefined => {
  if (taken) return 'active';
  if (state === 'waiting') return 'waiting';
  return state === 'resumable' ? 'paused' : undefined;
};

/** Moves a slot in the gauge of slots by state; without any slot, the gauge is set to 0. */
export function countSlot(
  { quotaSlots }: Pick<Metrics, 'quotaSlots'>,
  before: Slot | undefined,
  after: Slot | undefined,
): void {
  if (before === undefined && after === undefined)
    for (const state of states) quotaSlots.set({ state }, 0);
  const old = before === undefined ? undefined : stateOf(before);
  const current = after === undefined ? undefined : stateOf(after);
  if (old === current) return;
  if (old !== undefined) quotaSlots.dec({ state: old });
  if (current !== undefined) quotaSlots.inc({ state: current });
}
