import type { ApiKey, ApiKeySpec } from '../../resources/api-key.ts';

/**
 * Maximum number of keys in a chain: a key, the key that made it, and so on. A longer chain, or a
 * circle, is not valid.
 */
export const maxChainLength = 8;

/** A valid key, together with the keys that it depends on. */
export interface KeyChain {
  /** The lowest role of the chain. */
  readonly role: ApiKeySpec['role'];
  /** Time at which the first key of the chain expires; Infinity where none does. */
  readonly expiresAtMs: number;
  /** UID of the key itself, then of the key that made it, and so on. */
  readonly uids: readonly string[];
}

/** A time that cannot be read counts as past. */
const expiryOf = ({ spec }: ApiKey): number =>
  spec.expirationTime === undefined ? Infinity : Date.parse(spec.expirationTime) || 0;

/**
 * The chain of a key, undefined as soon as one key of the chain does not exist under its uid, is
 * disabled, or has expired. `find` reads a cache: a key is refused as long as the cache does not
 * show its maker, so a cache that is behind never lets a key outlive its maker.
 */
export function chainOf(
  key: ApiKey,
  find: (name: string) => ApiKey | undefined,
  nowMs: number,
): KeyChain | undefined {
  const uids: string[] = [];
  let role: ApiKeySpec['role'] = 'admin';
  let expiresAtMs = Infinity;
  for (let link: ApiKey | undefined = key; ;) {
    const { metadata, spec }: ApiKey = link;
    if (
      metadata.deletionTimestamp !== undefined ||
      spec.disabled === true ||
      uids.length === maxChainLength
    )
      return undefined;
    uids.push(metadata.uid);
    expiresAtMs = Math.min(expiresAtMs, expiryOf(link));
    if (expiresAtMs <= nowMs) return undefined;
    if (spec.role === 'user') role = 'user';
    if (spec.issuedBy === undefined) return { role, expiresAtMs, uids };
    link = find(spec.issuedBy.name);
    if (link?.metadata.uid !== spec.issuedBy.uid) return undefined;
  }
}

/** Whether each key exists that a key depends on: valid or not. */
export function hasMakers(key: ApiKey, find: (name: string) => ApiKey | undefined): boolean {
  let { issuedBy } = key.spec;
  for (let length = 0; issuedBy !== undefined && length < maxChainLength; length++) {
    const maker: ApiKey | undefined = find(issuedBy.name);
    if (maker?.metadata.uid !== issuedBy.uid || maker.metadata.deletionTimestamp !== undefined)
      return false;
    ({ issuedBy } = maker.spec);
  }
  return true;
}
