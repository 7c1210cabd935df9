import type { ApiObject } from '../api/api-object.ts';
import {
  arrayAt,
  isObject,
  numberAt,
  objectAt,
  stringAt,
  valueAt,
  type Json,
  type JsonObject,
} from '../json/json.ts';
import { parseJsonPath, plainKeys } from '../json/json-path.ts';
import { invalidValue, required, type FieldError } from '../schema/field-error.ts';
import type { Schema } from '../schema/structural-schema.ts';
import type { ApiResource, ColumnWithCell, ScalePaths } from './api-resource.ts';
import { builtinSchema } from './builtin-schema.ts';
import { ageColumn, nameColumn, printerColumn } from './printer-column.ts';
import { structuralErrors } from './structural-errors.ts';

/** Finalizer that keeps a definition until its last object is gone. */
export const cleanupFinalizer = 'customresourcecleanup.apiextensions.k8s.io';

const strings = (values: readonly Json[]): readonly string[] =>
  values.filter((value) => typeof value === 'string');

const servedVersion = (definition: ApiObject): Json | undefined => {
  const versions = arrayAt(definition['spec'], 'versions');
  return versions.find((version) => valueAt(version, ['storage']) === true) ?? versions[0];
};

const schemaOf = (version: Json | undefined): Schema =>
  (objectAt(objectAt(version, 'schema'), 'openAPIV3Schema') as Schema | undefined) ?? {
    'x-kubernetes-preserve-unknown-fields': true,
  };

/**
 * Completes the schema of a custom resource with the metadata of Kubernetes, whatever the
 * definition contains.
 */
function completeSchema(schema: Schema): Schema {
  return {
    ...schema,
    type: 'object',
    properties: {
      apiVersion: { type: 'string' },
      kind: { type: 'string' },
      ...schema.properties,
      metadata: builtinSchema('V1ObjectMeta'),
    },
  };
}

function columnsOf(version: Json | undefined): readonly ColumnWithCell[] {
  const columns = arrayAt(version, 'additionalPrinterColumns').map((column) => {
    const format = stringAt(column, 'format');
    return printerColumn(stringAt(column, 'jsonPath') ?? '', {
      name: stringAt(column, 'name') ?? '',
      type: stringAt(column, 'type') ?? 'string',
      description: stringAt(column, 'description') ?? '',
      priority: numberAt(column, 'priority') ?? 0,
      ...(format === undefined ? {} : { format }),
    });
  });
  return columns.length === 0 ? [nameColumn, ageColumn] : [nameColumn, ...columns];
}

function scaleOf(version: Json | undefined): ScalePaths | undefined {
  const scale = objectAt(objectAt(version, 'subresources'), 'scale');
  if (scale === undefined) return undefined;
  const spec = plainKeys(stringAt(scale, 'specReplicasPath') ?? '');
  const status = plainKeys(stringAt(scale, 'statusReplicasPath') ?? '');
  if (spec === undefined || status === undefined) return undefined;
  const selector = plainKeys(stringAt(scale, 'labelSelectorPath') ?? '');
  return { spec, status, ...(selector === undefined || selector.length === 0 ? {} : { selector }) };
}

/**
 * Returns the kind that a CustomResourceDefinition describes. @throws for a definition with
 * `definitionErrors`
 */
export function customResource(definition: ApiObject): ApiResource {
  const names = objectAt(definition['spec'], 'names') ?? {};
  const group = stringAt(definition['spec'], 'group') ?? '';
  const version = servedVersion(definition);
  const kind = stringAt(names, 'kind') ?? '';
  const plural = stringAt(names, 'plural') ?? '';
  const scale = scaleOf(version);
  return {
    group,
    version: stringAt(version, 'name') ?? '',
    kind,
    listKind: stringAt(names, 'listKind') ?? `${kind}List`,
    plural,
    singular: stringAt(names, 'singular') ?? kind.toLowerCase(),
    shortNames: strings(arrayAt(names, 'shortNames')),
    categories: strings(arrayAt(names, 'categories')),
    namespaced: stringAt(definition['spec'], 'scope') === 'Namespaced',
    key: `${group}/${plural}`,
    builtin: false,
    schema: completeSchema(schemaOf(version)),
    hasStatus: objectAt(objectAt(version, 'subresources'), 'status') !== undefined,
    ...(scale === undefined ? {} : { scale }),
    otherSubresources: [],
    hasGeneration: true,
    columns: columnsOf(version),
    selectableFields: new Map(
      arrayAt(version, 'selectableFields').map((field) => {
        const path = stringAt(field, 'jsonPath') ?? '';
        return [path.replace(/^\./, ''), parseJsonPath(path)];
      }),
    ),
    nameRule: 'subdomain',
  };
}

export function definitionErrors(definition: ApiObject): readonly FieldError[] {
  const spec = objectAt(definition, 'spec');
  const names = objectAt(spec, 'names');
  const group = stringAt(spec, 'group');
  const plural = stringAt(names, 'plural');
  const scope = stringAt(spec, 'scope');
  const version = servedVersion(definition);
  const missing = [
    ...(group === undefined ? ['spec.group'] : []),
    ...(plural === undefined ? ['spec.names.plural'] : []),
    ...(stringAt(names, 'kind') === undefined ? ['spec.names.kind'] : []),
    ...(scope === undefined ? ['spec.scope'] : []),
  ].map((field) => required(field));
  if (missing.length > 0) return missing;
  if (arrayAt(spec, 'versions').filter((each) => valueAt(each, ['storage']) === true).length !== 1)
    return [
      invalidValue(
        'spec.versions',
        arrayAt(spec, 'versions'),
        'must have exactly one version marked as storage version',
      ),
    ];
  const wanted = `${plural ?? ''}.${group ?? ''}`;
  const path = 'spec.versions[0]';
  return [
    ...(definition.metadata.name === wanted
      ? []
      : [
          invalidValue(
            'metadata.name',
            definition.metadata.name,
            `must be spec.names.plural+"."+spec.group`,
          ),
        ]),
    ...(objectAt(objectAt(version, 'schema'), 'openAPIV3Schema') === undefined
      ? [required(`${path}.schema.openAPIV3Schema`)]
      : structuralErrors(schemaOf(version), `${path}.schema.openAPIV3Schema`)),
    ...pathErrors(version, path),
  ];
}

function pathErrors(version: Json | undefined, at: string): FieldError[] {
  const paths = [
    ...arrayAt(version, 'additionalPrinterColumns'),
    ...arrayAt(version, 'selectableFields'),
  ].map((item) => stringAt(item, 'jsonPath'));
  return paths.flatMap((path) => {
    try {
      parseJsonPath(path ?? '');
      return [];
    } catch (error) {
      return [invalidValue(`${at}.jsonPath`, path, String(error))];
    }
  });
}

export function definitionDefaults(definition: JsonObject): JsonObject {
  const spec = objectAt(definition, 'spec') ?? {};
  const names = objectAt(spec, 'names') ?? {};
  const kind = stringAt(names, 'kind');
  const filled =
    kind === undefined
      ? names
      : { listKind: `${kind}List`, singular: kind.toLowerCase(), ...names };
  return {
    ...definition,
    spec: {
      conversion: { strategy: 'None' },
      ...spec,
      ...(isObject(spec['names']) ? { names: filled } : {}),
    },
  };
}

/**
 * Returns a new definition with the conditions of a served kind, because a stored definition is
 * served at once.
 */
export function definitionInitial(definition: ApiObject): ApiObject {
  const condition = (type: string, reason: string, message: string) => ({
    type,
    status: 'True',
    lastTransitionTime: definition.metadata.creationTimestamp,
    reason,
    message,
  });
  return {
    ...definition,
    metadata: {
      ...definition.metadata,
      finalizers: [...(definition.metadata.finalizers ?? []), cleanupFinalizer],
    },
    status: {
      conditions: [
        condition('NamesAccepted', 'NoConflicts', 'no conflicts found'),
        condition('Established', 'InitialNamesAccepted', 'the initial names have been accepted'),
      ],
      acceptedNames: objectAt(definition['spec'], 'names') ?? {},
      storedVersions: [stringAt(servedVersion(definition), 'name') ?? ''],
    },
  };
}

export const definitionResource: ApiResource = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  kind: 'CustomResourceDefinition',
  listKind: 'CustomResourceDefinitionList',
  plural: 'customresourcedefinitions',
  singular: 'customresourcedefinition',
  shortNames: ['crd', 'crds'],
  categories: ['api-extensions'],
  namespaced: false,
  key: 'apiextensions.k8s.io/customresourcedefinitions',
  builtin: true,
  model: 'V1CustomResourceDefinition',
  schema: builtinSchema('V1CustomResourceDefinition'),
  hasStatus: true,
  otherSubresources: [],
  hasGeneration: true,
  columns: [
    nameColumn,
    {
      name: 'Created At',
      type: 'date',
      description: 'Time of creation.',
      priority: 0,
      cell: ({ metadata }) => metadata.creationTimestamp,
    },
  ],
  selectableFields: new Map(),
  nameRule: 'subdomain',
  defaults: definitionDefaults,
  initial: definitionInitial,
  validate: definitionErrors,
};
