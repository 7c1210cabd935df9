import { maxChainLength } from '../auth/key-chain.ts';
import type { Principal } from '../auth/authenticate.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { invalidField } from '../errors/validation.ts';

const dayMs = 24 * 60 * 60 * 1000;
const path = 'body.expires_at';

export interface NewKeyLimits {
  /** The chain of the key that makes the new one. */
  readonly chain: Principal['chain'];
  /** Maximum lifetime of a key that is made over REST; undefined: none. */
  readonly maxLifetimeMs: number | undefined;
  readonly nowMs: number;
}

/**
 * Throws `key-depth-exceeded` where the new key would end a chain that is longer than a valid one
 * may be.
 */
export function refuseTooDeep({ uids }: Principal['chain']): void {
  if (uids.length < maxChainLength) return;
  throw new ProblemError(
    'key-depth-exceeded',
    `At most ${maxChainLength} keys may follow from each other, and the key of this request is the last one. Use a key that was made earlier.`,
  );
}

/**
 * When a new key expires, in milliseconds; undefined: never. A key that is made over REST never
 * outlives the key that makes it, nor the maximum lifetime. Throws 422 that names the field for a
 * time beyond these, and takes the earlier one where no time is given.
 */
export function expiryOfNewKey(
  wanted: number | undefined,
  { chain, maxLifetimeMs, nowMs }: NewKeyLimits,
): number | undefined {
  const latestMs = nowMs + (maxLifetimeMs ?? Infinity);
  const firstEndMs = Math.min(chain.expiresAtMs, latestMs);
  if (wanted === undefined) return firstEndMs === Infinity ? undefined : firstEndMs;
  if (wanted <= nowMs) throw invalidField(path, 'must be in the future');
  if (wanted > chain.expiresAtMs) {
    const expiry = new Date(chain.expiresAtMs).toISOString();
    throw invalidField(
      path,
      `must not be later than the expiry of the key that makes it, ${expiry}`,
    );
  }
  if (wanted > latestMs) {
    const days = Number(((maxLifetimeMs ?? 0) / dayMs).toFixed(2));
    throw invalidField(path, `must be at most ${days} days from now`);
  }
  return wanted;
}
