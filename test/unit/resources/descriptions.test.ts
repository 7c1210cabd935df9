import { crdOf, definitions } from '../../../src/resources/crd.ts';

interface Schema {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
}

/**
 * The paths of all fields below a schema that `kubectl explain` would show without a description.
 */
function undescribed(schema: Schema, path: string): readonly string[] {
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

describe('kubectl explain', () => {
  it.each(definitions)('describes every field of a $kind', (definition) => {
    const { openAPIV3Schema } = crdOf(definition).spec.versions[0]?.schema ?? {};
    const { spec, status } = (openAPIV3Schema as Schema | undefined)?.properties ?? {};
    expect([...undescribed(spec ?? {}, 'spec'), ...undescribed(status ?? {}, 'status')]).toEqual(
      [],
    );
    expect(Object.keys(spec?.properties ?? {})).not.toEqual([]);
  });

  it('misses a description', () => {
    expect(
      undescribed(
        { properties: { one: { description: 'One.', items: { properties: { two: {} } } } } },
        'spec',
      ),
    ).toEqual(['spec.one[].two']);
  });
});
