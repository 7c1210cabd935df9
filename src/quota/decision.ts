import type { Cap } from '../resources/quota-caps.ts';
import type { QuotaRule } from '../resources/quota-rules.ts';
import type { Expiry } from './slot-timing.ts';
import type { Slot } from './slot.ts';

/**
 * One decision on a sandbox. Its write fails unless the sandbox still has the version of
 * `slot.sandbox`.
 */
export type Decision =
  /** The pod is gone, and the sandbox needs its slot no more. */
  | { readonly kind: 'release'; readonly slot: Slot }
  /** `resumed`: an automatic resume. */
  | { readonly kind: 'admit'; readonly slot: Slot; readonly resumed: boolean }
  /** The preemptor is undefined where the limit was lowered. */
  | {
      readonly kind: 'evict';
      readonly slot: Slot;
      readonly rule: QuotaRule;
      readonly preemptor: Slot | undefined;
    }
  /** A time limit of the template pauses the sandbox. */
  | { readonly kind: 'expire'; readonly slot: Slot; readonly reason: Expiry['reason'] }
  | {
      readonly kind: 'reject';
      readonly slot: Slot;
      readonly rule: QuotaRule;
      readonly current: number;
    }
  /** `maxSandboxes` is exceeded; the sandbox fails and gets no volume. */
  | { readonly kind: 'fail'; readonly slot: Slot; readonly cap: Cap; readonly current: number }
  /** The condition Admitted says why the sandbox waits. */
  | { readonly kind: 'wait'; readonly slot: Slot; readonly rule: QuotaRule };
