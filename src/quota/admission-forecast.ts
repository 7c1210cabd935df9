import type { QuotaRule } from '../resources/quota-rules.ts';
import type { LimitGroup } from './limit-group.ts';
import type { Slot } from './slot.ts';

/** The forecast of one more start, or of a resume with a message or a run. */
export type AdmissionForecast =
  | { readonly outcome: 'admitted' }
  /** The start takes a slot that is being freed; nothing is evicted for it. */
  | { readonly outcome: 'follows'; readonly rule: QuotaRule }
  /**
   * The start waits until the victim's pod is gone. The eviction comes at `at` (milliseconds since
   * 1970), or at once if that is past.
   */
  | {
      readonly outcome: 'pauses';
      readonly rule: QuotaRule;
      readonly victim: Slot;
      readonly at: number;
    }
  | { readonly outcome: 'waits'; readonly rule: QuotaRule }
  | { readonly outcome: 'rejected'; readonly rule: QuotaRule };

/** Numbers of the newcomers that wait in a group. */
export interface Waiting {
  /** Newcomers with work to do: they come before one more start. */
  readonly demanding: number;
  /** Demanding newcomers that could be admitted now. */
  readonly ready: number;
  /** Bare resumes: they come after one more start. */
  readonly bare: number;
}

/** The newcomers of a group, where no other limit keeps any of them waiting. */
export const waitingIn = ({ demanding, waiting }: LimitGroup): Waiting => ({
  demanding,
  ready: demanding,
  bare: waiting.size - demanding,
});

/** The forecast under the limit of this group alone, after the newcomers that come first. Pure. */
export function forecastIn(
  group: LimitGroup,
  { demanding, ready, bare }: Waiting = waitingIn(group),
): AdmissionForecast {
  const { rule, limit, taken, holding, candidates, makesRoom } = group;
  if (rule === undefined || taken + ready < limit) return { outcome: 'admitted' };
  const pauses = (victim: Slot): AdmissionForecast => ({
    outcome: 'pauses',
    rule,
    victim,
    at: candidates.evictableAt(victim),
  });
  const before = holding + demanding - limit;
  if (before < 0) {
    // The slot that is being freed was meant for a bare resume, which has another idle sandbox
    // evicted instead.
    const displaced =
      makesRoom && before + bare >= 0 ? candidates.idleAt(before + bare) : undefined;
    return displaced === undefined ? { outcome: 'follows', rule } : pauses(displaced);
  }
  if (rule.onExceeded === 'Reject') return { outcome: 'rejected', rule };
  // Evictions for other newcomers, or for a lowered limit, come first.
  const victim = makesRoom ? candidates.at(before) : undefined;
  return victim === undefined ? { outcome: 'waits', rule } : pauses(victim);
}

/**
 * The limit of the owner decides first: a start that it keeps waiting, or for which it evicts,
 * needs no room in the namespace yet.
 */
export function stricterOf(
  owner: AdmissionForecast,
  namespace: AdmissionForecast,
): AdmissionForecast {
  const needsNamespace =
    owner.outcome === 'admitted' ||
    (owner.outcome === 'follows' && namespace.outcome !== 'admitted');
  return needsNamespace ? namespace : owner;
}
