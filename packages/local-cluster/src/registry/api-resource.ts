import type { ApiObject } from '../api/api-object.ts';
import type { JsonObject } from '../json/json.ts';
import type { JsonPath } from '../json/json-path.ts';
import type { FieldError } from '../schema/field-error.ts';
import type { Schema } from '../schema/structural-schema.ts';

export interface Column {
  readonly name: string;
  readonly type: string;
  readonly format?: string;
  readonly description: string;
  /** 0 is always shown, 1 only with `-o wide`. */
  readonly priority: number;
}

/** A cell's value, by the object and the time. */
export interface ColumnWithCell extends Column {
  readonly cell: (object: ApiObject, nowMs: number) => string | number | boolean | null;
}

export interface ScalePaths {
  readonly spec: readonly string[];
  readonly status: readonly string[];
  readonly selector?: readonly string[];
}

export interface ResourceNames {
  /** '' for the core group. */
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

/** A kind that is served, and everything in which kinds differ. */
export interface ApiResource extends ResourceNames {
  /** Where its objects are stored: `group/plural`. */
  readonly key: string;
  readonly builtin: boolean;
  /** Of a built-in kind: the type that its schema and its documentation are made of. */
  readonly model?: string;
  readonly schema: Schema;
  readonly hasStatus: boolean;
  readonly scale?: ScalePaths;
  /** Subresources beside status and scale, for discovery. */
  readonly otherSubresources: readonly {
    readonly name: string;
    readonly kind: string;
    readonly group?: string;
    readonly version?: string;
    readonly verbs: readonly string[];
  }[];
  /** Whether metadata.generation is kept. */
  readonly hasGeneration: boolean;
  readonly columns: readonly ColumnWithCell[];
  /** Fields that selectors may name, beside metadata.name and metadata.namespace. */
  readonly selectableFields: ReadonlyMap<string, JsonPath>;
  readonly nameRule: 'subdomain' | 'label' | 'label1035';
  /** Fills in what a client may leave out, after the schema's own defaults. */
  readonly defaults?: (object: JsonObject) => JsonObject;
  /** The state of a new object, whatever the client sent. */
  readonly initial?: (object: ApiObject) => ApiObject;
  /** What the schema can't say. */
  readonly validate?: (object: ApiObject, old: ApiObject | undefined) => readonly FieldError[];
  /** Seconds that a deletion waits for whoever runs the object; absent: none. */
  readonly graceSeconds?: (object: ApiObject) => number;
}

export const apiVersionOf = ({ group, version }: Pick<ResourceNames, 'group' | 'version'>): string =>
  group === '' ? version : `${group}/${version}`;
