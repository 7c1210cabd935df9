import type { CustomResourceDefinition } from '@conversation-operator/kube/core';
import type { ApiObject } from '../api/api-object.ts';
import { parseJsonPath, plainKeys } from '../json/json-path.ts';
import { invalidValue, required, type FieldError } from '../schema/field-error.ts';
import type { Schema } from '../schema/structural-schema.ts';
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

type Definition = Decoded<CustomResourceDefinition>;
type Version = NonNullable<NonNullable<Definition['spec']>['versions']>[number];

/** Finalizer that keeps a CustomResourceDefinition until its last object is gone. */
export const cleanupFinalizer = 'customresourcecleanup.apiextensions.k8s.io';

const servedVersion = ({ spec }: Definition): Version =>
  spec?.versions?.find(({ storage }) => storage === true) ?? spec?.versions?.[0] ?? {};

const schemaOf = ({ schema }: Version): Schema | undefined =>
  // The type of a definition's `openAPIV3Schema` is `any`, so the content has not been checked.
  schema?.openAPIV3Schema as Schema | undefined;

/** Adds apiVersion, kind and metadata. The schema of metadata is always that of Kubernetes. */
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

/** Returns the kind of a definition. @throws SyntaxError for an unsupported JSON path */
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
  return [
    ...(isNamed
      ? []
      : [invalidValue('metadata.name', metadata.name, `must be spec.names.plural+"."+spec.group`)]),
    ...(schemaOf(servedVersion(definition)) === undefined
      ? [required('spec.versions[0].schema.openAPIV3Schema')]
      : []),
  ];
}

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

/** Adds the finalizer, and conditions of a served kind: the server serves every stored kind. */
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
