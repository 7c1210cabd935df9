import { referenceIn, type SandboxKeys } from '../../agent/keys.ts';
import type { Logger } from '@conversation-operator/base/logger';
import { keySeedOf, sessionKeyGenerationOf, type Sandbox } from '../../resources/sandbox.ts';
import { isEqual } from './key.ts';
import type { KeyChain, KeyRing } from './key-ring.ts';

/** The API key of a request whose response shows session keys. */
export interface Reader {
  readonly keyUid: string;
  /** Whether session keys are shown: they open agents, which the scope `manage` allows. */
  readonly opensAgents: boolean;
  /** Called with each sandbox whose session key is shown. */
  readonly disclosed: (sandbox: Sandbox) => void;
}

export interface SessionKeysOptions {
  readonly keys: Pick<SandboxKeys, 'sessionKey' | 'clientKey' | 'knows'>;
  readonly ring: Pick<KeyRing, 'byReference'>;
  readonly logger: Logger;
}

/**
 * Derives and checks the session keys of sandboxes. Each API key has its own session key, which
 * opens the sandbox only while that API key is valid and until the keys of the sandbox are rotated.
 * The keys derive from the master key and cached objects, so none of them is stored.
 */
export class SessionKeys {
  readonly #options: SessionKeysOptions;

  constructor(options: SessionKeysOptions) {
    this.#options = options;
  }

  /** Whether this process has the master key from which the sandbox's keys derive. */
  has({ metadata, status }: Sandbox): boolean {
    if (this.#options.keys.knows(status?.masterKeyId)) return true;
    this.#options.logger.warn('The key of a sandbox can not be derived', {
      sandbox: metadata.name,
    });
    return false;
  }

  /** The key that the agent in the sandbox expects; undefined if it can not be derived. */
  agentKeyOf(sandbox: Sandbox): string | undefined {
    return this.#derived(sandbox, () =>
      this.#options.keys.sessionKey(keySeedOf(sandbox), sandbox.status?.masterKeyId),
    );
  }

  /** The reader's session key; undefined if the reader opens no agents, or none can be derived. */
  shownTo(reader: Reader, sandbox: Sandbox): string | undefined {
    if (!reader.opensAgents) return undefined;
    const key = this.#clientKeyOf(sandbox, reader.keyUid);
    if (key !== undefined) reader.disclosed(sandbox);
    return key;
  }

  /**
   * The chain of the API key to which the session key `candidate` belongs; undefined if the
   * candidate is not valid for the sandbox. The comparison takes constant time.
   */
  opening(sandbox: Sandbox, candidate: string): KeyChain | undefined {
    const found = this.#options.ring.byReference(referenceIn(candidate));
    if (found === undefined || found.key.spec.owner !== sandbox.spec.owner) return undefined;
    if (!found.chain.scopes.has('manage')) return undefined;
    const key = this.#clientKeyOf(sandbox, found.key.metadata.uid);
    return key !== undefined && isEqual(key, candidate) ? found.chain : undefined;
  }

  #clientKeyOf(sandbox: Sandbox, apiKeyUid: string): string | undefined {
    const generation = sessionKeyGenerationOf(sandbox);
    if (generation === undefined) return undefined;
    return this.#derived(sandbox, () =>
      this.#options.keys.clientKey(
        keySeedOf(sandbox),
        { apiKeyUid, generation },
        sandbox.status?.masterKeyId,
      ),
    );
  }

  #derived({ metadata }: Sandbox, derive: () => string): string | undefined {
    try {
      return derive();
    } catch (error) {
      // This process lacks the master key. Responses show the sandbox without its session key.
      this.#options.logger.warn('The key of a sandbox can not be derived', {
        sandbox: metadata.name,
        error,
      });
      return undefined;
    }
  }
}
