import type { ApiResource } from './api-resource.ts';

/** The served kinds, which change with the stored CustomResourceDefinitions. */
export class Registry {
  readonly #byKey = new Map<string, ApiResource>();
  readonly #byKind = new Map<string, ApiResource>();
  /** Number of changes, by which discovery and OpenAPI detect that a cached document is stale. */
  #generation = 0;

  get generation(): number {
    return this.#generation;
  }

  set(resource: ApiResource): void {
    this.#byKey.set(resource.key, resource);
    this.#byKind.set(`${resource.group}/${resource.kind}`, resource);
    this.#generation += 1;
  }

  delete(key: string): void {
    const resource = this.#byKey.get(key);
    if (resource === undefined) return;
    this.#byKey.delete(key);
    this.#byKind.delete(`${resource.group}/${resource.kind}`);
    this.#generation += 1;
  }

  byKey(key: string): ApiResource | undefined {
    return this.#byKey.get(key);
  }

  find(group: string, version: string, plural: string): ApiResource | undefined {
    const resource = this.#byKey.get(`${group}/${plural}`);
    return resource?.version === version ? resource : undefined;
  }

  byKind(group: string, kind: string): ApiResource | undefined {
    return this.#byKind.get(`${group}/${kind}`);
  }

  all(): readonly ApiResource[] {
    return [...this.#byKey.values()];
  }

  /** Returns the groups with their one version, the core group first. */
  groups(): readonly { readonly group: string; readonly version: string }[] {
    const versions = new Map<string, string>();
    for (const { group, version } of this.#byKey.values())
      if (!versions.has(group)) versions.set(group, version);
    return [...versions].map(([group, version]) => ({ group, version }));
  }
}
