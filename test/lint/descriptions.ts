import { fileURLToPath } from 'node:url';
import { crdOf, definitions } from '../../src/resources/crd.ts';

export interface Schema {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
}

/** Paths of the fields below a schema that `kubectl explain` shows without a description. */
export function undescribed(schema: Schema, path: string): readonly string[] {
  const { properties = {}, items, additionalProperties } = schema;
  return [
    ...Object.entries(properties).flatMap(([name, field]) => [
      ...(field.description === undefined ? [`${path}.${name}`] : []),
      ...undescribed(field, `${path}.${name}`),
    ]),
    ...(items === undefined ? [] : undescribed(items, `${path}[]`)),
    ...(typeof additionalProperties === 'object'
      ? undescribed(additionalProperties, `${path}{}`)
      : []),
  ];
}

function main(): void {
  const paths = definitions.flatMap((definition) => {
    const { openAPIV3Schema } = crdOf(definition).spec.versions[0]?.schema ?? {};
    // The API server describes the other fields.
    const { spec, status } = (openAPIV3Schema as Schema | undefined)?.properties ?? {};
    if (spec?.properties === undefined || status?.properties === undefined)
      throw new Error(`the schema of ${definition.kind} has no fields of its spec or its status`);
    return undescribed({ properties: { spec, status } }, definition.kind);
  });
  if (paths.length === 0) return;
  process.stderr.write(
    `${paths.join('\n')}\n${paths.length} fields of custom resources have no description\n`,
  );
  process.exitCode = 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main();
