import type { ApiResource } from './api-resource.ts';

export interface ApiGroup {
  readonly group: string;
  readonly version: string;
  readonly resources: readonly ApiResource[];
}

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

  /** Returns the kinds by group; each group has one version, and the core group is the first. */
  groups(): readonly ApiGroup[] {
    return [...Map.groupBy(this.#byKey.values(), ({ group }) => group)].map(
      ([group, resources]) => ({ group, version: resources[0]?.version ?? '', resources }),
    );
  }
}
