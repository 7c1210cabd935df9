import { timingSafeEqual } from 'node:crypto';
import { referenceIn, type SandboxKeys } from '../../agent/keys.ts';
import type { Logger } from '@conversation-operator/base/logger';
import { sessionKeyGenerationOf, type Sandbox } from '../../resources/sandbox.ts';
import type { KeyRing } from './key-ring.ts';

/** The reader of a record that shows session keys. */
export interface Reader {
  /** UID of the reader's API key. */
  readonly keyUid: string;
  /** Called with each sandbox whose session key is shown. */
  readonly disclosed: (sandbox: Sandbox) => void;
}

/** Why a session key opens a sandbox. */
export interface Opening {
  /** UIDs of the API keys that the session key ends with. */
  readonly apiKeyUids: readonly string[];
  /** Time at which the first of these API keys expires; Infinity where none does. */
  readonly expiresAtMs: number;
}

export interface SessionKeysOptions {
  readonly keys: Pick<SandboxKeys, 'sessionKey' | 'clientKey' | 'knows'>;
  readonly ring: Pick<KeyRing, 'byReference'>;
  readonly logger: Logger;
}

/**
 * Checks and derives the session keys of sandboxes. Each API key has its own session key, which
 * opens the sandbox only as long as that API key is valid and the sandbox's keys are not rotated.
 * The keys follow from the caches, so nothing is stored for them.
 */
export class SessionKeys {
  readonly #options: SessionKeysOptions;

  constructor(options: SessionKeysOptions) {
    this.#options = options;
  }

  /** Whether the keys of the sandbox can be derived. */
  has({ metadata, status }: Sandbox): boolean {
    if (this.#options.keys.knows(status?.masterKeyId)) return true;
    this.#options.logger.warn('The key of a sandbox can not be derived', {
      sandbox: metadata.name,
    });
    return false;
  }

  /** The key that the sandbox's agent itself demands. Undefined where it cannot be derived. */
  agentKeyOf(sandbox: Sandbox): string | undefined {
    return this.#derived(sandbox, () =>
      this.#options.keys.sessionKey(sandbox.metadata.uid, sandbox.status?.masterKeyId),
    );
  }

  /** The session key of a reader. Undefined where it cannot be derived. */
  shownTo(reader: Reader, sandbox: Sandbox): string | undefined {
    const key = this.#clientKeyOf(sandbox, reader.keyUid);
    if (key !== undefined) reader.disclosed(sandbox);
    return key;
  }

  /**
   * Undefined unless the candidate opens the sandbox now. The duration does not depend on how much
   * of a MAC is right.
   */
  opening(sandbox: Sandbox, candidate: string): Opening | undefined {
    const found = this.#options.ring.byReference(referenceIn(candidate));
    if (found === undefined || found.key.spec.owner !== sandbox.spec.owner) return undefined;
    const key = this.#clientKeyOf(sandbox, found.key.metadata.uid);
    if (key === undefined || !isEqual(key, candidate)) return undefined;
    return { apiKeyUids: found.chain.uids, expiresAtMs: found.chain.expiresAtMs };
  }

  #clientKeyOf(sandbox: Sandbox, apiKeyUid: string): string | undefined {
    const generation = sessionKeyGenerationOf(sandbox);
    if (generation === undefined) return undefined;
    return this.#derived(sandbox, () =>
      this.#options.keys.clientKey(
        sandbox.metadata.uid,
        { apiKeyUid, generation },
        sandbox.status?.masterKeyId,
      ),
    );
  }

  #derived({ metadata }: Sandbox, derive: () => string): string | undefined {
    try {
      return derive();
    } catch (error) {
      // Made under a master key that this process was not given: its record can be read all the
      // same.
      this.#options.logger.warn('The key of a sandbox can not be derived', {
        sandbox: metadata.name,
        error,
      });
      return undefined;
    }
  }
}

/** The length is no secret: it is that of every key. */
export function isEqual(key: string, candidate: string): boolean {
  const [left, right] = [Buffer.from(key), Buffer.from(candidate)];
  return left.length === right.length && timingSafeEqual(left, right);
}
