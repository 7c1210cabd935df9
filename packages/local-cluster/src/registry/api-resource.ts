import type { ApiObject, Meta } from '../api/api-object.ts';
import type { JsonObject, Json } from '../json/json.ts';
import { type JsonPath, findAll, parseJsonPath } from '../json/json-path.ts';
import type { FieldError } from '../schema/field-error.ts';
import type { Schema } from '../schema/structural-schema.ts';
import { type KubeObject, ageOf } from '@conversation-operator/kube/object';

export interface Column {
  readonly name: string;
  readonly type: string;
  readonly format?: string;
  readonly description: string;
  /** 0: kubectl always shows the column. 1: kubectl shows it only with `-o wide`. */
  readonly priority: number;
}

export interface ColumnWithCell<T = ApiObject> extends Column {
  readonly cell: (object: T, nowMs: number) => string | number | boolean | null;
}

export interface ScalePaths {
  readonly spec: readonly string[];
  readonly status: readonly string[];
  readonly selector?: readonly string[];
}

export interface ResourceNames {
  /** API group; '' for the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly listKind: string;
  readonly plural: string;
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly namespaced: boolean;
}

/** Rules of a kind that its schema cannot express. */
export interface KindRules<T = ApiObject> {
  readonly columns: readonly ColumnWithCell<T>[];
  readonly defaults?: (object: T) => T;
  /** Sets the initial state of a new object, whatever the client sent. */
  readonly initial?: (object: T) => T;
  readonly validate?: (object: T, old: T | undefined) => readonly FieldError[];
  /** Grace period of a deletion in seconds, for kinds whose objects run on a node. Absent: 0. */
  readonly graceSeconds?: (object: T) => number;
}

export interface ApiResource extends ResourceNames, Omit<KindRules, 'defaults'> {
  /** Storage key of the kind: `group/plural`. */
  readonly key: string;
  readonly builtin: boolean;
  /** Name of the type in `builtinTypes` from which the schema of a built-in kind is generated. */
  readonly model?: string;
  readonly schema: Schema;
  readonly hasStatus: boolean;
  readonly scale?: ScalePaths;
  /** Subresources other than status and scale, for discovery. */
  readonly otherSubresources: readonly {
    readonly name: string;
    readonly kind: string;
    readonly group?: string;
    readonly version?: string;
    readonly verbs: readonly string[];
  }[];
  /** Whether the server maintains metadata.generation. */
  readonly hasGeneration: boolean;
  /** Fields for field selectors, in addition to metadata.name and metadata.namespace. */
  readonly selectableFields: ReadonlyMap<string, JsonPath>;
  readonly nameRule: 'subdomain' | 'label';
  /** Sets defaults that the schema can't express, after the defaults of the schema. */
  readonly defaults?: (object: JsonObject) => JsonObject;
}

export const apiVersionOf = ({
  group,
  version,
}: Pick<ResourceNames, 'group' | 'version'>): string =>
  group === '' ? version : `${group}/${version}`;

/** The type T with every field optional at any depth. */
export type Sparse<T> = T extends readonly (infer Item)[]
  ? readonly Sparse<Item>[]
  : T extends object
    ? { readonly [K in keyof T]?: Sparse<T[K]> }
    : T;

/**
 * An object of a built-in kind after the check of its schema. Its fields have their types, but
 * fields that Kubernetes requires may be absent: the `validate` of the kind reports these.
 */
export type Decoded<T extends KubeObject> = Pick<KubeObject, 'apiVersion' | 'kind'> &
  Sparse<Omit<T, keyof KubeObject>> & { readonly metadata: Meta };

export interface ApiGroup {
  readonly group: string;
  readonly version: string;
  readonly resources: readonly ApiResource[];
}

/** The served kinds, which change when CustomResourceDefinitions are stored or deleted. */
export class Registry {
  readonly #byKey = new Map<string, ApiResource>();
  readonly #byKind = new Map<string, ApiResource>();
  /** Number of changes, by which discovery and OpenAPI detect stale cached documents. */
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

  /** Returns the kinds by group. Each group has one version, and the core group is the first. */
  groups(): readonly ApiGroup[] {
    return [...Map.groupBy(this.#byKey.values(), ({ group }) => group)].map(
      ([group, resources]) => ({ group, version: resources[0]?.version ?? '', resources }),
    );
  }
}

type ColumnOfAnyKind = ColumnWithCell<{ readonly metadata: Meta }>;

export const nameColumn: ColumnOfAnyKind = {
  name: 'Name',
  type: 'string',
  format: 'name',
  description: 'Name must be unique within a namespace.',
  priority: 0,
  cell: ({ metadata }) => metadata.name,
};

export const ageColumn: ColumnOfAnyKind = {
  name: 'Age',
  type: 'string',
  description: 'Time since creation.',
  priority: 0,
  cell: ({ metadata }, nowMs) => ageOf(metadata.creationTimestamp, nowMs),
};

/** Creates a column of type string. An absent value becomes ''. */
export const columnOf = <T>(
  name: string,
  cell: (object: T, nowMs: number) => string | number | undefined,
  priority = 0,
): ColumnWithCell<T> => ({
  name,
  type: 'string',
  description: name,
  priority,
  cell: (object, nowMs) => cell(object, nowMs) ?? '',
});

/** Returns the first value at the path in the form in which the API server prints the type. */
function cellOf(
  [value]: readonly Json[],
  type: string,
  nowMs: number,
): string | number | boolean | null {
  if (value === undefined || value === null) return null;
  switch (type) {
    case 'integer':
    case 'number':
      return typeof value === 'number' ? value : Number(value);
    case 'boolean':
      return typeof value === 'boolean' ? value : null;
    case 'date':
      return ageOf(value, nowMs);
    default:
      return typeof value === 'object' ? JSON.stringify(value) : String(value);
  }
}

/** Creates a column of a CustomResourceDefinition. @throws SyntaxError for an unsupported path */
export function printerColumn(jsonPath: string, column: Column): ColumnWithCell {
  const path = parseJsonPath(jsonPath);
  return { ...column, cell: (object, nowMs) => cellOf(findAll(object, path), column.type, nowMs) };
}
