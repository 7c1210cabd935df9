import type { Clock } from '@conversation-operator/base/clock';

/** Time for which a start counts, in milliseconds: longer than a pool takes to replace a spare. */
const windowMs = 60_000;
/** Maximum starts that are remembered for one owner of one template. */
const maxRemembered = 1_000;

interface OwnerStarts {
  lastStart: number;
  /** Times of the claims, the oldest first. */
  claims: number[];
}

/**
 * Shares of owners in the spares of each template. An owner that starts alone may claim every
 * spare. While several owners start, the spares that were claimed and those that are ready are
 * divided by the number of these owners, so that starts and deletions in a loop leave the other
 * owners theirs. The starts of the last minute count; those of an earlier leader do not.
 */
export class ClaimShares {
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** Starts by owner, of each template with starts in the last minute. */
  readonly #byTemplate = new Map<string, Map<string, OwnerStarts>>();

  constructor({ clock }: { readonly clock: Pick<Clock, 'monotonic'> }) {
    this.#clock = clock;
  }

  /** Records a start, whether or not it claims a spare. */
  started(template: string, owner: string): void {
    const now = this.#clock.monotonic();
    const owners = this.#recent(template, now) ?? new Map<string, OwnerStarts>();
    this.#byTemplate.set(template, owners);
    const starts = owners.get(owner) ?? { lastStart: now, claims: [] };
    starts.lastStart = now;
    owners.set(owner, starts);
  }

  /** Whether an owner may claim one of the spares that are ready. */
  mayClaim(template: string, owner: string, ready: number): boolean {
    const owners = this.#recent(template, this.#clock.monotonic());
    if (owners === undefined || owners.size < 2) return true;
    const claimed = [...owners.values()].reduce((sum, { claims }) => sum + claims.length, 0);
    const own = owners.get(owner)?.claims.length ?? 0;
    return own < Math.ceil((claimed + ready) / owners.size);
  }

  /** Counts a claim that is sent now. The result takes the claim back, if it was not executed. */
  claimed(template: string, owner: string): () => void {
    const claims = this.#byTemplate.get(template)?.get(owner)?.claims ?? [];
    const at = this.#clock.monotonic();
    claims.push(at);
    if (claims.length > maxRemembered) claims.shift();
    return () => {
      const index = claims.lastIndexOf(at);
      if (index >= 0) claims.splice(index, 1);
    };
  }

  /** Owners with a start in the last minute; undefined: there is none. */
  #recent(template: string, now: number): Map<string, OwnerStarts> | undefined {
    const owners = this.#byTemplate.get(template);
    if (owners === undefined) return undefined;
    for (const [owner, starts] of owners) {
      if (now - starts.lastStart >= windowMs) owners.delete(owner);
      else while ((starts.claims[0] ?? now) <= now - windowMs) starts.claims.shift();
    }
    if (owners.size === 0) this.#byTemplate.delete(template);
    return owners.size === 0 ? undefined : owners;
  }
}
