import { crds } from '../../../../test/support/crds.ts';
import { eventually } from '../../../../test/support/eventually.ts';
import { causesOf, type Document } from './support/document.ts';
import { install, useServer } from './support/server.ts';
import { widgetDefinition } from './support/widgets.ts';

const server = useServer();
const path = (name?: string) =>
  ['/apis/apiextensions.k8s.io/v1/customresourcedefinitions', name]
    .filter((part) => part !== undefined)
    .join('/');

const conditionsOf = ({ status }: Document): ReadonlyMap<string, string> =>
  new Map(
    (status as { conditions: { type: string; status: string }[] }).conditions.map(
      ({ type, status: value }) => [type, value],
    ),
  );

describe("the product's definitions", () => {
  it.each(crds().map((definition) => [definition.spec.names.plural, definition] as const))(
    '%s is accepted without a warning',
    async (_, manifest) => {
      const { status, warnings, body } = await server().mergePatch(
        path(manifest.metadata.name),
        manifest,
        { query: { fieldValidation: 'Strict' } },
      );
      expect([status, warnings, body.message]).toEqual([200, [], undefined]);
      const conditions = conditionsOf((await server().get(path(manifest.metadata.name))).body);
      expect(conditions.get('NamesAccepted')).toBe('True');
      expect(conditions.get('Established')).toBe('True');
      // The condition of a server that found the schema not to be structural.
      expect(conditions.has('NonStructuralSchema')).toBe(false);
    },
  );
});

describe('a definition', () => {
  it('gets its defaults', async () => {
    const { body } = await server().get(path(`widgets.${server().widgetGroup}`));
    expect(body.spec).toMatchObject({
      conversion: { strategy: 'None' },
      names: { listKind: 'WidgetList', singular: 'widget' },
    });
    expect(body.status).toMatchObject({
      acceptedNames: { kind: 'Widget', plural: 'widgets' },
      storedVersions: ['v1'],
    });
  });

  const widgets = () => widgetDefinition(`refused.${server().widgetGroup}`);
  const version = (change: object) => {
    const definition = widgets();
    return {
      ...definition,
      spec: {
        ...definition.spec,
        versions: definition.spec.versions.map((each) => ({ ...each, ...change })),
      },
    };
  };
  async function refuses(_: string, definition: () => object, message: RegExp): Promise<void> {
    const { status, body } = await server().post(path(), definition());
    expect([status, body.reason]).toEqual([422, 'Invalid']);
    expect(body.message).toMatch(message);
  }

  it.each<[string, () => object, RegExp]>([
    [
      'another name than its plural and group',
      () => ({ ...widgets(), metadata: { name: 'gadgets.example.com' } }),
      /metadata\.name: Invalid value: "gadgets\.example\.com": must be spec\.names\.plural\+"\."\+spec\.group/,
    ],
    [
      'no scope',
      () => ({ ...widgets(), spec: { ...widgets().spec, scope: undefined } }),
      /spec\.scope: Required value/,
    ],
    [
      'no versions',
      () => ({ ...widgets(), spec: { ...widgets().spec, versions: [] } }),
      /spec\.versions: Invalid value: .*must have exactly one version marked as storage version/,
    ],
    [
      'no schema',
      () => version({ schema: undefined }),
      /spec\.versions\[0\]\.schema\.openAPIV3Schema: Required value/,
    ],
  ])('is refused with %s', refuses);

  it('takes its objects with it', async () => {
    const group = `taken.${server().widgetGroup}`;
    const definition = widgetDefinition(group);
    await install(server(), definition);
    const objects = `/apis/${group}/v1/namespaces/${server().namespace}/widgets`;
    await server().post(objects, { ...server().widget('one'), apiVersion: `${group}/v1` });
    const { status } = await server().delete(path(definition.metadata.name));
    expect(status).toBe(200);
    await eventually('the kind is gone', async () => (await server().get(objects)).status === 404);
    await eventually(
      'the definition is gone',
      async () => (await server().get(path(definition.metadata.name))).status === 404,
    );
    await install(server(), definition);
    expect((await server().get(objects)).body.items).toEqual([]);
    await server().delete(path(definition.metadata.name));
  });

  it('serves what its schema says from when it changes', async () => {
    const group = `changed.${server().widgetGroup}`;
    const definition = widgetDefinition(group);
    await install(server(), definition);
    const objects = `/apis/${group}/v1/namespaces/${server().namespace}/widgets`;
    const object = { ...server().widget('w', { size: 101 }), apiVersion: `${group}/v1` };
    const refused = await server().post(objects, object);
    expect(causesOf(refused.body)[0]).toContain('less than or equal to 100');
    const { status } = await server().jsonPatch(path(definition.metadata.name), [
      {
        op: 'remove',
        path: '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum',
      },
    ]);
    expect(status).toBe(200);
    await eventually(
      'the new schema is in force',
      async () => (await server().post(objects, object)).status === 201,
    );
    await server().delete(path(definition.metadata.name));
  });
});
