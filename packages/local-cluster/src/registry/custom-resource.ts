import type { CustomResourceDefinition } from '@conversation-operator/kube/core';
import type { ApiObject } from '../api/api-object.ts';
import { parseJsonPath, plainKeys } from '../json/json-path.ts';
import { invalidValue, required, type FieldError, forbiddenField } from '../schema/field-error.ts';
import { type Schema, valuesOf } from '../schema/structural-schema.ts';
import {
  type ApiResource,
  type ColumnWithCell,
  type ScalePaths,
  type Decoded,
  ageColumn,
  nameColumn,
  printerColumn,
} from './api-resource.ts';
import { resource } from './builtin-resources.ts';
import { builtinSchema } from './builtin-schema.ts';
import { rulesOf } from '../schema/cel-rules.ts';
import { validate } from '../schema/validate.ts';

/**
 * Returns the reasons why a schema is not structural and thus cannot be served (apiextensions
 * `schema/validation.go`), and its invalid rules, patterns and defaults.
 */
function structuralErrors(schema: Schema, path: string): readonly FieldError[] {
  return [...nodeErrors(schema, path), ...childrenErrors(schema, path)];
}

function nodeErrors(schema: Schema, path: string): FieldError[] {
  const errors: FieldError[] = [];
  const isOpen = schema['x-kubernetes-preserve-unknown-fields'] === true;
  const isIntOrString = schema['x-kubernetes-int-or-string'] === true;
  if (schema.type === undefined && !isOpen && !isIntOrString)
    errors.push(required(`${path}.type`, 'must not be empty for specified object fields'));
  if (schema.type === 'array' && schema.items === undefined)
    errors.push(required(`${path}.items`, 'must be specified'));
  if (schema.properties !== undefined && valuesOf(schema) !== undefined)
    errors.push(
      forbiddenField(
        `${path}.additionalProperties`,
        'additionalProperties and properties are mutual exclusive',
      ),
    );
  if (
    schema['x-kubernetes-list-type'] === 'map' &&
    (schema['x-kubernetes-list-map-keys'] ?? []).length === 0
  )
    errors.push(
      required(
        `${path}.x-kubernetes-list-map-keys`,
        'must not be empty if x-kubernetes-list-type is map',
      ),
    );
  return [
    ...errors,
    ...ruleErrors(schema, path),
    ...patternErrors(schema, path),
    ...defaultErrors(schema, path),
  ];
}

const ruleErrors = (schema: Schema, path: string): FieldError[] =>
  (schema['x-kubernetes-validations'] ?? []).flatMap((rule, index) => {
    try {
      rulesOf({ 'x-kubernetes-validations': [rule] });
      return [];
    } catch (error) {
      const field = `${path}.x-kubernetes-validations[${index}].rule`;
      return [invalidValue(field, rule.rule, `compilation failed: ${String(error)}`)];
    }
  });

function patternErrors({ pattern }: Schema, path: string): FieldError[] {
  try {
    if (pattern !== undefined) new RegExp(pattern);
    return [];
  } catch {
    return [invalidValue(`${path}.pattern`, pattern, 'must be a valid regular expression')];
  }
}

/** A default has to satisfy its own schema. */
function defaultErrors(schema: Schema, path: string): FieldError[] {
  if (schema.default === undefined) return [];
  return validate(schema.default, schema, `${path}.default`).map((error) => ({
    ...error,
    field: `${path}.default`,
  }));
}

function childrenErrors(schema: Schema, path: string): readonly FieldError[] {
  const values = valuesOf(schema);
  return [
    ...Object.entries(schema.properties ?? {}).flatMap(([key, property]) =>
      structuralErrors(property, `${path}.properties[${key}]`),
    ),
    ...(schema.items === undefined ? [] : structuralErrors(schema.items, `${path}.items`)),
    ...(values === undefined ? [] : structuralErrors(values, `${path}.additionalProperties`)),
  ];
}

type Definition = Decoded<CustomResourceDefinition>;
type Version = NonNullable<NonNullable<Definition['spec']>['versions']>[number];

/** Finalizer that keeps a definition until its last object is gone. */
export const cleanupFinalizer = 'customresourcecleanup.apiextensions.k8s.io';

const servedVersion = ({ spec }: Definition): Version =>
  spec?.versions?.find(({ storage }) => storage === true) ?? spec?.versions?.[0] ?? {};

const schemaOf = ({ schema }: Version): Schema | undefined =>
  // The definition was checked against the meta schema of the server, not against this type.
  schema?.openAPIV3Schema as Schema | undefined;

/** Completes a custom schema with Kubernetes' metadata, whatever the definition contains. */
const completeSchema = (schema: Schema): Schema => ({
  ...schema,
  type: 'object',
  properties: {
    apiVersion: { type: 'string' },
    kind: { type: 'string' },
    ...schema.properties,
    metadata: builtinSchema('V1ObjectMeta'),
  },
});

function columnsOf({ additionalPrinterColumns }: Version): readonly ColumnWithCell[] {
  const columns = (additionalPrinterColumns ?? []).map(
    ({ name = '', type = 'string', description = '', priority = 0, jsonPath = '', format }) =>
      printerColumn(jsonPath, {
        name,
        type,
        description,
        priority,
        ...(format === undefined ? {} : { format }),
      }),
  );
  return columns.length === 0 ? [nameColumn, ageColumn] : [nameColumn, ...columns];
}

function scaleOf({ subresources }: Version): ScalePaths | undefined {
  const scale = subresources?.scale;
  if (scale === undefined) return undefined;
  const spec = plainKeys(scale.specReplicasPath ?? '');
  const status = plainKeys(scale.statusReplicasPath ?? '');
  if (spec === undefined || status === undefined) return undefined;
  const selector = plainKeys(scale.labelSelectorPath ?? '');
  return { spec, status, ...(selector === undefined || selector.length === 0 ? {} : { selector }) };
}

/**
 * Returns the kind that a CustomResourceDefinition describes. @throws for a definition with
 * `definitionErrors`
 */
export function customResource(definition: ApiObject): ApiResource {
  const { spec = {} } = definition as Definition;
  const { group = '', names = {} } = spec;
  const { kind = '', plural = '' } = names;
  const version = servedVersion(definition);
  const scale = scaleOf(version);
  return {
    group,
    version: version.name ?? '',
    kind,
    listKind: names.listKind ?? `${kind}List`,
    plural,
    singular: names.singular ?? kind.toLowerCase(),
    shortNames: names.shortNames ?? [],
    categories: names.categories ?? [],
    namespaced: spec.scope === 'Namespaced',
    key: `${group}/${plural}`,
    builtin: false,
    schema: completeSchema(schemaOf(version) ?? { 'x-kubernetes-preserve-unknown-fields': true }),
    hasStatus: version.subresources?.status !== undefined,
    ...(scale === undefined ? {} : { scale }),
    otherSubresources: [],
    hasGeneration: true,
    columns: columnsOf(version),
    selectableFields: new Map(
      (version.selectableFields ?? []).map(({ jsonPath = '' }) => [
        jsonPath.replace(/^\./, ''),
        parseJsonPath(jsonPath),
      ]),
    ),
    nameRule: 'subdomain',
  };
}

function definitionErrors(definition: Definition): readonly FieldError[] {
  const { metadata, spec = {} } = definition;
  const { group, names, scope, versions = [] } = spec;
  const needed = {
    'spec.group': group,
    'spec.names.plural': names?.plural,
    'spec.names.kind': names?.kind,
    'spec.scope': scope,
  };
  const missing = Object.entries(needed).filter(([, value]) => value === undefined);
  if (missing.length > 0) return missing.map(([field]) => required(field));
  if (versions.filter(({ storage }) => storage === true).length !== 1)
    return [
      invalidValue('spec.versions', [], 'must have exactly one version marked as storage version'),
    ];
  const isNamed = metadata.name === `${names?.plural ?? ''}.${group ?? ''}`;
  const path = 'spec.versions[0]';
  const version = servedVersion(definition);
  const schema = schemaOf(version);
  return [
    ...(isNamed
      ? []
      : [invalidValue('metadata.name', metadata.name, `must be spec.names.plural+"."+spec.group`)]),
    ...(schema === undefined
      ? [required(`${path}.schema.openAPIV3Schema`)]
      : structuralErrors(schema, `${path}.schema.openAPIV3Schema`)),
    ...pathErrors(version, path),
  ];
}

const pathErrors = (version: Version, at: string): FieldError[] =>
  [...(version.additionalPrinterColumns ?? []), ...(version.selectableFields ?? [])].flatMap(
    ({ jsonPath = '' }) => {
      try {
        parseJsonPath(jsonPath);
        return [];
      } catch (error) {
        return [invalidValue(`${at}.jsonPath`, jsonPath, String(error))];
      }
    },
  );

function definitionDefaults(definition: Definition): Definition {
  const { spec = {} } = definition;
  const { kind } = spec.names ?? {};
  const names = kind === undefined ? {} : { listKind: `${kind}List`, singular: kind.toLowerCase() };
  return {
    ...definition,
    spec: {
      conversion: { strategy: 'None' },
      ...spec,
      ...(spec.names === undefined ? {} : { names: { ...names, ...spec.names } }),
    },
  };
}

/** A new definition with the conditions of a served kind, as it is served once stored. */
function definitionInitial(definition: Definition): Definition {
  const { metadata, spec } = definition;
  const condition = (type: string, reason: string, message: string) => ({
    type,
    status: 'True',
    reason,
    message,
    lastTransitionTime: metadata.creationTimestamp,
  });
  return {
    ...definition,
    metadata: { ...metadata, finalizers: [...(metadata.finalizers ?? []), cleanupFinalizer] },
    status: {
      conditions: [
        condition('NamesAccepted', 'NoConflicts', 'no conflicts found'),
        condition('Established', 'InitialNamesAccepted', 'the initial names have been accepted'),
      ],
      acceptedNames: spec?.names ?? {},
      storedVersions: [servedVersion(definition).name ?? ''],
    },
  };
}

export const definitionResource = resource<CustomResourceDefinition>(
  'CustomResourceDefinition',
  'V1CustomResourceDefinition',
  {
    group: 'apiextensions.k8s.io',
    shortNames: ['crd', 'crds'],
    categories: ['api-extensions'],
    namespaced: false,
    hasStatus: true,
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
    defaults: definitionDefaults,
    initial: definitionInitial,
    validate: definitionErrors,
  },
);
