import { isNewerVersion } from '@conversation-operator/kube/object';
import type { ConversationQuota } from '../resources/conversation-quota.ts';

interface Deleted {
  readonly quota: ConversationQuota;
  readonly until: number;
}

/**
 * Grace of a deleted quota: `kubectl replace --force`, and other tools that delete and create, take
 * less.
 */
const replacementMs = 5_000;

const hasSameScope = ({ spec }: ConversationQuota, other: ConversationQuota): boolean =>
  spec.scope === other.spec.scope && spec.owner === other.spec.owner;

/**
 * Under a deleted quota newcomers wait until the grace is over; none of them is rejected, and
 * nothing is evicted for them.
 */
const withQueue = (quota: ConversationQuota): ConversationQuota => ({
  ...quota,
  spec: { ...quota.spec, onExceeded: 'Queue' },
});

/**
 * The quotas of one namespace, those that were just deleted included: another one may replace them
 * in a moment. Pure.
 */
export class ActiveQuotas {
  readonly #quotas = new Map<string, ConversationQuota>();
  /** Deleted quotas in their grace, by name. */
  readonly #deleted = new Map<string, Deleted>();
  #hasChanged = false;

  /** Whether no quota is known, not even a deleted one in its grace. */
  get isEmpty(): boolean {
    return this.#quotas.size === 0 && this.#deleted.size === 0;
  }

  values(): Iterable<ConversationQuota> {
    return this.#quotas.values();
  }

  /**
   * Returns whether the spec of the quota has changed. An older version than the known one changes
   * nothing.
   */
  observe(quota: ConversationQuota): boolean {
    const { uid, generation } = quota.metadata;
    const known = this.#quotas.get(uid);
    if (known !== undefined && !isNewerVersion(quota, known)) return false;
    this.#quotas.set(uid, quota);
    if (known?.metadata.generation === generation) return false;
    this.#hasChanged = true;
    return true;
  }

  /** Returns whether the quota was known. */
  delete({ metadata: { uid, name } }: ConversationQuota, now: number): boolean {
    const quota = this.#quotas.get(uid);
    if (quota === undefined) return false;
    this.#quotas.delete(uid);
    this.#deleted.set(name, { quota, until: now + replacementMs });
    this.#hasChanged = true;
    return true;
  }

  /** Time when a grace ends; Infinity without one. */
  get nextChangeAt(): number {
    return Math.min(Infinity, ...[...this.#deleted.values()].map(({ until }) => until));
  }

  /** The quotas that count now; undefined where they are those of the last call. */
  takeChanged(now: number): readonly ConversationQuota[] | undefined {
    for (const [name, { until }] of this.#deleted) {
      if (until > now) continue;
      this.#deleted.delete(name);
      this.#hasChanged = true;
    }
    if (!this.#hasChanged) return undefined;
    this.#hasChanged = false;
    const quotas = [...this.#quotas.values()];
    const deleted = [...this.#deleted.values()].map(({ quota }) => quota);
    return [
      ...quotas,
      ...deleted
        .filter((gone) => !quotas.some((quota) => hasSameScope(quota, gone)))
        .map(withQueue),
    ];
  }
}
