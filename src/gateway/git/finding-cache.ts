import type { Finding, GitAccess } from '@conversation-operator/git/ls-remote';
import type { Clock } from '@conversation-operator/base/clock';
import { LRUCache } from 'lru-cache';
import { expiryBy } from '../lookup/expiry.ts';
import { accessKeyOf, keyOf, type Inquiry } from './inquiry.ts';

/**
 * Lifetime of a finding in the cache: changes on a host show soon, and many starts at once cause
 * one request.
 */
const lifetimesMs: Readonly<Record<GitAccess, number>> = {
  granted: 60_000,
  denied: 10_000,
  unknown: 5_000,
};
const limits = { max: 10_000, maxSize: 32 * 1024 * 1024 };

/** Approximate memory of a finding. */
const bytesOf = ({ refs }: Finding): number =>
  1024 +
  (refs?.branches.reduce(
    (total, { name, commitSha }) => total + 96 + name.length + commitSha.length,
    0,
  ) ?? 0);

/** Caches findings of git hosts for a limited time, by repository, credential and references. */
export class FindingCache {
  readonly #findings: LRUCache<string, Finding>;

  constructor(clock: Clock) {
    this.#findings = new LRUCache({ ...limits, sizeCalculation: bytesOf, ...expiryBy(clock) });
  }

  get(inquiry: Inquiry): Finding | undefined {
    return this.#findings.get(keyOf(inquiry));
  }

  /** Keeps the finding for inquiries about the same references, and about none. */
  set(inquiry: Inquiry, finding: Finding): void {
    const { refs, hasNamed, ...access } = finding;
    const [accessKey, key] = [accessKeyOf(inquiry), keyOf(inquiry)];
    this.#findings.set(accessKey, access, { ttl: lifetimesMs[access.access] });
    if (key !== accessKey)
      this.#findings.set(key, finding, { ttl: lifetimesMs[certaintyOf(finding)] });
  }
}

/** The access of a finding, as far as the references of the finding are known too. */
function certaintyOf({ access, refs, hasNamed }: Finding): GitAccess {
  if (access !== 'granted') return access;
  if (hasNamed === undefined && refs === undefined) return 'unknown';
  return hasNamed === false ? 'denied' : 'granted';
}
