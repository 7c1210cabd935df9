import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { KubeClient } from '@conversation-operator/kube/client';
import { namespaces } from '@conversation-operator/kube/core';
import { isForbidden, isNotFound } from '@conversation-operator/kube/errors';
import type { Logger } from '@conversation-operator/base/logger';

export interface NamespaceUidsOptions {
  readonly client: Pick<KubeClient, 'get'>;
  readonly logger: Logger;
}

const maxRemembered = 10_000;

/** The UIDs of namespaces, which archives name beside the master key. */
export class NamespaceUids {
  readonly #options: NamespaceUidsOptions;
  readonly #known = recentlyUsed<string>(maxRemembered);

  constructor(options: NamespaceUidsOptions) {
    this.#options = options;
  }

  /** The UID as this process has read it last. Reads it where it is not known. */
  async of(namespace: string, signal: AbortSignal): Promise<string | undefined> {
    return this.#known.get(namespace) ?? this.read(namespace, signal);
  }

  /**
   * Reads the UID. Undefined: the operator lacks the right, or the namespace is gone. Throws other
   * errors of the API server.
   */
  async read(namespace: string, signal: AbortSignal): Promise<string | undefined> {
    const { client, logger } = this.#options;
    try {
      const { metadata } = await client.get(namespaces, '', namespace, { signal });
      this.#known.set(namespace, metadata.uid);
      return metadata.uid;
    } catch (error) {
      if (!isForbidden(error) && !isNotFound(error)) throw error;
      logger.debug('The namespace can not be read', { namespace, error });
      return undefined;
    }
  }
}
