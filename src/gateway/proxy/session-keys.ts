import { timingSafeEqual } from 'node:crypto';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { Logger } from '../../observability/logger.ts';
import type { Sandbox } from '../../resources/sandbox.ts';

/** The keys that open sandboxes' agents, as the gateway checks and tells them. */
export class SessionKeys {
  readonly #keys: Pick<SandboxKeys, 'sessionKey'>;
  readonly #logger: Logger;

  constructor(options: { readonly keys: Pick<SandboxKeys, 'sessionKey'>; readonly logger: Logger }) {
    this.#keys = options.keys;
    this.#logger = options.logger;
  }

  /** Undefined where it can't be derived. */
  of({ metadata, status }: Sandbox): string | undefined {
    try {
      return this.#keys.sessionKey(metadata.uid, status?.masterKeyId);
    } catch (error) {
      // Made under a master key that this process was not given: its record can be read all the same.
      this.#logger.warn('The key of a sandbox can not be derived', { sandbox: metadata.name, error });
      return undefined;
    }
  }

  /** Whether the candidate is this sandbox's key. The time it takes tells nothing about how right it was. */
  opens(sandbox: Sandbox, candidate: string): boolean {
    const key = this.of(sandbox);
    return key !== undefined && isEqual(key, candidate);
  }
}

/** The length is no secret: it is that of every key. */
export function isEqual(key: string, candidate: string): boolean {
  const [left, right] = [Buffer.from(key), Buffer.from(candidate)];
  return left.length === right.length && timingSafeEqual(left, right);
}
