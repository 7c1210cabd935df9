import { found } from '@conversation-operator/kube/errors';
import { crdOf, definitions } from '../../resources/crd.ts';
import { version } from '../../resources/group.ts';
import { errorOf, FindingCode, outcomeOf, warningOf, type Finding, type Check } from './check.ts';
import { customResourceDefinitions } from './resources.ts';

export interface Schema {
  readonly type?: string | undefined;
  readonly enum?: readonly unknown[] | undefined;
  readonly properties?: Readonly<Record<string, Schema>> | undefined;
  readonly items?: unknown;
  readonly additionalProperties?: unknown;
}

export interface DefinitionFacts {
  readonly name: string;
  /** Undefined: the cluster does not have the definition. */
  readonly served:
    | {
        readonly schema: Schema | undefined;
        /** Whether the cluster serves and stores this program's version of the definition. */
        readonly hasVersion: boolean;
        /** Reason why the API server does not serve the kind. Undefined: the kind is served. */
        readonly notEstablished: string | undefined;
      }
    | undefined;
  readonly own: Schema;
}

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Type and enum values of each field in a schema, by the path of the field. */
export function fieldsOf(schema: Schema, path = ''): ReadonlyMap<string, string> {
  const { properties = {}, items, additionalProperties } = schema;
  const below: readonly (readonly [string, unknown])[] = [
    ...Object.entries(properties).map(([name, field]) => [`${path}.${name}`, field] as const),
    [`${path}[]`, items],
    [`${path}{}`, additionalProperties],
  ];
  return new Map(
    below.flatMap(([name, field]) => {
      if (!isSchema(field)) return [];
      const values = (field.enum ?? []).map((value) => JSON.stringify(value)).sort();
      return [[name, `${field.type ?? ''} ${values.join()}`] as const, ...fieldsOf(field, name)];
    }),
  );
}

const maxNamedFields = 3;
const some = (paths: readonly string[]): string =>
  `${paths.slice(0, maxNamedFields).join(', ')}${paths.length > maxNamedFields ? ` and ${paths.length - maxNamedFields} more` : ''}`;

const remedy =
  'conversation-operator crds | kubectl apply --server-side --force-conflicts -f - # or: helm upgrade with crds.install=true';

function findingOf(
  { name, served, own }: DefinitionFacts,
  phase: 'pre' | 'installed',
): Finding | undefined {
  if (served === undefined)
    return phase === 'pre'
      ? undefined
      : errorOf(FindingCode.definitionMissing, {
          cause: `The cluster has no definition ${name}.`,
          breaks:
            'The operator and the gateway can not read their resources, and never become ready.',
          remedy,
        });
  const { schema, hasVersion, notEstablished } = served;
  if (!hasVersion)
    return errorOf(FindingCode.definitionOutdated, {
      cause: `The definition ${name} does not serve and store the version ${version}.`,
      breaks: 'The operator and the gateway can not read their resources, and never become ready.',
      remedy,
    });
  if (notEstablished !== undefined)
    return errorOf(FindingCode.definitionMissing, {
      cause: `The API server does not serve ${name}: ${notEstablished}`,
      breaks: 'The operator and the gateway can not read their resources, and never become ready.',
      remedy: `kubectl describe crd ${name}`,
    });
  const [there, here] = [fieldsOf(schema ?? {}), fieldsOf(own)];
  const missing = [...here]
    .filter(([path, type]) => there.get(path) !== type)
    .map(([path]) => path);
  const unknown = [...there.keys()].filter((path) => !here.has(path));
  if (missing.length > 0)
    return errorOf(FindingCode.definitionOutdated, {
      cause: `The definition ${name} lacks fields of this version, or has others: ${some(missing)}.`,
      breaks: 'The API server drops these fields, or refuses their values.',
      remedy,
    });
  return unknown.length === 0
    ? undefined
    : warningOf(FindingCode.definitionOutdated, {
        cause: `The definition ${name} is newer than this program: ${some(unknown)}.`,
        breaks: 'This program does not read these fields.',
        remedy: 'helm upgrade # to the version whose definitions the cluster has',
      });
}

export const definitionFindings = (
  facts: readonly DefinitionFacts[],
  phase: 'pre' | 'installed',
): readonly Finding[] => facts.flatMap((each) => findingOf(each, phase) ?? []);

export const definitionsCheck: Check = {
  name: 'definitions',
  limitMs: 20_000,
  needsApiServer: true,
  run: async ({ client, phase }, signal) => {
    const facts = await Promise.all(
      definitions.map(async (definition): Promise<DefinitionFacts> => {
        const own = crdOf(definition);
        const { name } = own.metadata;
        const crd = await found(client.get(customResourceDefinitions, '', name, { signal }));
        const there = crd?.spec.versions.find((each) => each.name === version);
        const established = crd?.status?.conditions?.find(({ type }) => type === 'Established');
        const [here] = own.spec.versions;
        return {
          name,
          own: JSON.parse(JSON.stringify(here?.schema.openAPIV3Schema ?? {})) as Schema,
          served:
            crd === undefined
              ? undefined
              : {
                  schema: there?.schema?.openAPIV3Schema as Schema | undefined,
                  hasVersion: there?.served === true && there.storage,
                  notEstablished:
                    established?.status === 'False' ? (established.message ?? '') : undefined,
                },
        };
      }),
    );
    const present = facts.filter(({ served }) => served !== undefined).length;
    return outcomeOf(
      definitionFindings(facts, phase),
      phase === 'pre' && present === 0
        ? 'none yet: the installation brings them'
        : `${present} of ${facts.length} kinds as this program has them`,
    );
  },
};
