import { useServer } from './support/server.ts';
import { eventually } from '../../../../test/support/eventually.ts';

const server = useServer();

interface Aggregated {
  readonly items: readonly {
    readonly metadata: { readonly name?: string };
    readonly versions: readonly {
      readonly version: string;
      readonly resources: readonly { readonly resource: string }[];
    }[];
  }[];
}
const json = async <T>(path: string, accept?: string): Promise<T> =>
  JSON.parse((await server().get(path, accept === undefined ? {} : { accept })).text) as T;

describe('discovery', () => {
  it('says all at once when asked', async () => {
    const accept =
      'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json';
    const { status, text, headers } = await server().get('/apis', { accept });
    expect(status).toBe(200);
    expect(headers['content-type']).toBe(
      'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList',
    );
    const { items } = JSON.parse(text) as Aggregated;
    const product = items.find(({ metadata }) => metadata.name === 'conversation-operator.dev');
    expect(product?.versions).toMatchObject([{ version: 'v1alpha1', freshness: 'Current' }]);
    const resources = new Map(
      product?.versions[0]?.resources.map((resource) => [resource.resource, resource]),
    );
    expect([...resources.keys()].sort()).toEqual([
      'apikeys',
      'conversationquotas',
      'conversations',
      'handovers',
      'ownersettings',
      'sandboxes',
      'sandboxpools',
      'sandboxtemplates',
      'shares',
      'usagerecords',
    ]);
    expect(resources.get('sandboxes')).toMatchObject({
      responseKind: { group: 'conversation-operator.dev', version: 'v1alpha1', kind: 'Sandbox' },
      scope: 'Namespaced',
      singularResource: 'sandbox',
      shortNames: ['sbx'],
      categories: ['agents'],
      subresources: expect.arrayContaining([
        expect.objectContaining({
          subresource: 'status',
          responseKind: {
            group: 'conversation-operator.dev',
            version: 'v1alpha1',
            kind: 'Sandbox',
          },
        }),
        expect.objectContaining({
          subresource: 'scale',
          responseKind: { group: 'autoscaling', version: 'v1', kind: 'Scale' },
        }),
      ]) as unknown,
    });
    const core = await json<Aggregated>('/api', accept);
    expect(core.items[0]?.versions[0]?.resources.map(({ resource }) => resource)).toEqual(
      expect.arrayContaining(['pods', 'configmaps']),
    );
  });

  it('says its version', async () => {
    expect(await json('/version')).toMatchObject({
      major: '1',
      minor: expect.stringMatching(/^\d+/) as unknown,
      gitVersion: expect.stringMatching(/^v1\./) as unknown,
    });
  });

  it.each([['/healthz'], ['/livez'], ['/readyz']])('%s is ok', async (path) => {
    const { status, text } = await server().get(path);
    expect([status, text]).toEqual([200, 'ok']);
  });
});

describe('OpenAPI v3', () => {
  interface Document3 {
    readonly openapi: string;
    readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
    readonly components: {
      readonly schemas: Readonly<
        Record<string, { readonly properties?: Readonly<Record<string, unknown>> }>
      >;
    };
  }
  const path = () => `apis/${server().widgetGroup}/v1`;
  const documentOf = async (name: string): Promise<Document3> => {
    const index = await eventually('the kind is in the index', async () => {
      const { paths } = await json<{
        paths: Readonly<Record<string, { serverRelativeURL: string }>>;
      }>('/openapi/v3');
      return paths[name];
    });
    return json<Document3>(index.serverRelativeURL);
  };

  it('has an index with a document for each group and version', async () => {
    const { paths } = await json<{
      paths: Readonly<Record<string, { serverRelativeURL: string }>>;
    }>('/openapi/v3');
    expect(Object.keys(paths)).toEqual(
      expect.arrayContaining([
        'api/v1',
        'apis/coordination.k8s.io/v1',
        'apis/conversation-operator.dev/v1alpha1',
      ]),
    );
    expect(paths['api/v1']?.serverRelativeURL).toMatch(/^\/openapi\/v3\/api\/v1\?hash=[0-9A-F]+$/);
  });

  it('has the schema of a custom kind', async () => {
    const { openapi, components } = await documentOf(path());
    expect(openapi).toBe('3.0.0');
    const schema = Object.values(components.schemas).find(
      ({ properties }) => properties?.['spec'] !== undefined,
    );
    expect(schema).toMatchObject({
      type: 'object',
      required: ['spec'],
      'x-kubernetes-group-version-kind': [
        { group: server().widgetGroup, version: 'v1', kind: 'Widget' },
      ],
      properties: {
        spec: {
          required: ['color'],
          properties: {
            size: { type: 'integer', minimum: 1, maximum: 100, default: 5 },
            color: { enum: ['red', 'green', 'blue'] },
          },
        },
      },
    });
  });

  it('has the paths of a custom kind', async () => {
    const { paths } = await documentOf(path());
    const collection = `/apis/${server().widgetGroup}/v1/namespaces/{namespace}/widgets`;
    expect(Object.keys(paths)).toEqual(
      expect.arrayContaining([collection, `${collection}/{name}`]),
    );
    expect(Object.keys(paths[`${collection}/{name}`] ?? {})).toEqual(
      expect.arrayContaining(['get', 'patch']),
    );
  });

  it('has the schemas of built-in kinds', async () => {
    const { components } = await documentOf('api/v1');
    expect(components.schemas['io.k8s.api.core.v1.Pod']).toMatchObject({
      type: 'object',
      properties: {
        spec: expect.anything() as unknown,
        status: expect.anything() as unknown,
        metadata: expect.anything() as unknown,
      },
      'x-kubernetes-group-version-kind': [{ group: '', version: 'v1', kind: 'Pod' }],
    });
    expect(components.schemas['io.k8s.api.core.v1.PodSpec']?.properties).toHaveProperty(
      'containers',
    );
  });
});
