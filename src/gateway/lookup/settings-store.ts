import type { KubeClient } from '@conversation-operator/kube/client';
import { found, isAlreadyExists, isConflict } from '@conversation-operator/kube/errors';
import { apiVersion } from '../../resources/group.ts';
import {
  ownerSettings,
  settingsNameOf,
  settingsOf,
  type OwnerSettings,
  type OwnerSettingsSpec,
} from '../../resources/owner-settings.ts';
import { ProblemError } from '../errors/problem-error.ts';
import type { Cache } from './cache.ts';
import type { ObjectFeed } from './object-feed.ts';
import { writeOnStored } from './stored.ts';

export interface SettingsStoreOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly cache: Cache<OwnerSettings>;
  readonly feed: Pick<ObjectFeed<OwnerSettings>, 'shows'>;
}

/** Settings of owners. Reads use the cache; writes start from the version in the API server. */
export class SettingsStore {
  readonly #options: SettingsStoreOptions;

  constructor(options: SettingsStoreOptions) {
    this.#options = options;
  }

  /** The cached settings of an owner; only the field `owner` if the owner has none. */
  of(owner: string): OwnerSettingsSpec {
    const { cache, namespace } = this.#options;
    return settingsOf(owner, cache.store.get(namespace, settingsNameOf(owner))) ?? { owner };
  }

  /**
   * Stores the result of `change` for the stored settings of an owner, and waits until the cache
   * shows the result. After a conflict, `change` is called again. Nothing is written when `change`
   * throws or returns its argument. Returns the stored settings.
   */
  async change(
    owner: string,
    change: (stored: OwnerSettingsSpec) => OwnerSettingsSpec,
  ): Promise<OwnerSettingsSpec> {
    const { client, namespace, feed } = this.#options;
    const name = settingsNameOf(owner);
    const written = await writeOnStored(
      () => found(client.get(ownerSettings, namespace, name)),
      async (object) => {
        const stored = settingsOf(owner, object) ?? { owner };
        const spec = change(stored);
        if (spec === stored) return undefined;
        if (object === undefined)
          return client.create(ownerSettings, {
            apiVersion,
            kind: ownerSettings.kind,
            metadata: { namespace, name },
            spec,
          });
        if (settingsOf(owner, object) === undefined) throw occupied(name);
        return client.mergePatch(ownerSettings, namespace, name, patchTo(spec, object));
      },
      (error) => isConflict(error) || isAlreadyExists(error),
    );
    if (written === undefined) return this.of(owner);
    await feed.shows(written);
    return written.spec;
  }
}

/** A merge patch for this resourceVersion; null removes a field. */
const patchTo = (
  { secrets, git, model, mcpServers }: OwnerSettingsSpec,
  { metadata: { resourceVersion } }: OwnerSettings,
) => ({
  metadata: { resourceVersion },
  spec: {
    secrets: secrets ?? null,
    git: git ?? null,
    model: model ?? null,
    mcpServers: mcpServers ?? null,
  },
});

const occupied = (name: string): ProblemError =>
  new ProblemError(
    'conflict',
    `The settings ${name} are being deleted, or belong to another owner. An administrator of the cluster can delete them.`,
  );
