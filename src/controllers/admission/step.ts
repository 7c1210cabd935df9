import type { Cap } from '../../resources/quota-caps.ts';
import type { QuotaRule } from '../../resources/quota-rules.ts';
import type { Slot } from '../../quota/slot.ts';

/** One decision. What it says has to be written on the very version of the sandbox that it was made for. */
export type Step =
  /** Its pod is gone: it needs its slot no more. */
  | { readonly kind: 'release'; readonly slot: Slot }
  | { readonly kind: 'admit'; readonly slot: Slot; readonly resumed: boolean }
  /** For a newcomer, or because the limit was lowered. */
  | { readonly kind: 'evict'; readonly slot: Slot; readonly rule: QuotaRule; readonly beneficiary: Slot | undefined }
  | { readonly kind: 'expire'; readonly slot: Slot; readonly reason: NonNullable<Slot['expiry']>['reason'] }
  | { readonly kind: 'reject'; readonly slot: Slot; readonly rule: QuotaRule; readonly current: number }
  /** More sandboxes are stored than may be: it is none of them. */
  | { readonly kind: 'refuse'; readonly slot: Slot; readonly cap: Cap; readonly current: number }
  | { readonly kind: 'wait'; readonly slot: Slot; readonly rule: QuotaRule };
