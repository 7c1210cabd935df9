import type { ApiObject, Meta } from '../api/api-object.ts';
import type { JsonObject } from '../json/json.ts';
import type { JsonPath } from '../json/json-path.ts';
import type { FieldError } from '../schema/field-error.ts';
import type { Schema } from '../schema/structural-schema.ts';
import type { KubeObject } from '@conversation-operator/kube/object';

export interface Column {
  readonly name: string;
  readonly type: string;
  readonly format?: string;
  readonly description: string;
  /** Priority: 0 is always shown, 1 only with `-o wide`. */
  readonly priority: number;
}

/** A column with the function that computes a cell from the object and the time. */
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

/** A served kind, with every property in which kinds differ. */
export interface ApiResource extends ResourceNames, Omit<KindRules, 'defaults'> {
  /** Key of the storage of its objects: `group/plural`. */
  readonly key: string;
  readonly builtin: boolean;
  /** Model of a built-in kind, from which its schema and documentation are generated. */
  readonly model?: string;
  readonly schema: Schema;
  readonly hasStatus: boolean;
  readonly scale?: ScalePaths;
  /** Subresources besides status and scale, for discovery. */
  readonly otherSubresources: readonly {
    readonly name: string;
    readonly kind: string;
    readonly group?: string;
    readonly version?: string;
    readonly verbs: readonly string[];
  }[];
  /** True when the server maintains metadata.generation. */
  readonly hasGeneration: boolean;
  /** Fields that field selectors may use besides metadata.name and metadata.namespace. */
  readonly selectableFields: ReadonlyMap<string, JsonPath>;
  readonly nameRule: 'subdomain' | 'label' | 'label1035';
  /** Sets defaults that the schema does not express, after the defaults of the schema. */
  readonly defaults?: (object: JsonObject) => JsonObject;
}

export const apiVersionOf = ({
  group,
  version,
}: Pick<ResourceNames, 'group' | 'version'>): string =>
  group === '' ? version : `${group}/${version}`;

/** A value whose fields have the types of T and may all be absent. */
export type Sparse<T> = T extends readonly (infer Item)[]
  ? readonly Sparse<Item>[]
  : T extends object
    ? { readonly [K in keyof T]?: Sparse<T[K]> }
    : T;

/**
 * An object of a built-in kind after its schema was checked: each field has its type, and fields
 * that Kubernetes requires may be absent, because the validation of the kind reports those.
 */
export type Decoded<T extends KubeObject> = Pick<KubeObject, 'apiVersion' | 'kind'> &
  Sparse<Omit<T, keyof KubeObject>> & { readonly metadata: Meta };
