/* oxlint-disable
   @typescript-eslint/no-unsafe-assignment,
   @typescript-eslint/no-unsafe-member-access,
   @typescript-eslint/no-unsafe-call
   -- answers are JSON of every shape; a wrong guess fails the test */
import {
  aConversation,
  aPod,
  coreInDefault,
  group,
  inDefault,
  Plane,
  type Body,
} from '../../../../test/support/plane.ts';

// The cases of conformance show the rest: they use no clock of their own, and only what a real API
// server answers too.

let plane: Plane;
beforeEach(async () => {
  plane = await new Plane({ logCapacity: 50, maxWatchBacklog: 20 }).start();
});
afterEach(() => plane.close());

const conversations = inDefault('conversations');
const pods = coreInDefault('pods');
const table = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json' };

it('a table of pods reports their states', async () => {
  await plane.post(pods, aPod('p'));
  const row = async (): Promise<unknown[]> =>
    (await plane.get(pods, table)).body.rows[0].cells.slice(0, 4) as unknown[];
  expect(await row()).toEqual(['p', '0/1', 'Pending', '0']);
  const containerStatuses = [
    {
      name: 'agent',
      ready: false,
      restartCount: 2,
      image: '',
      imageID: '',
      state: { waiting: { reason: 'CrashLoopBackOff' } },
    },
  ];
  await plane.merge(coreInDefault('pods', 'p', 'status'), {
    status: { phase: 'Running', containerStatuses },
  });
  expect(await row()).toEqual(['p', '0/1', 'CrashLoopBackOff', '2']);
});

describe('a watch', () => {
  it('gets a bookmark each minute, at the latest version', async () => {
    const watch = await plane.watch(`${conversations}?allowWatchBookmarks=true`);
    const { body } = await plane.post(pods, aPod('p'));
    await plane.clock.advance(60_000);
    expect(await watch.take()).toMatchObject([
      {
        type: 'BOOKMARK',
        object: { metadata: { resourceVersion: body.metadata.resourceVersion as string } },
      },
    ]);
  });

  it('in tables gets the columns once', async () => {
    const watch = await plane.watch(conversations, table);
    await plane.post(conversations, aConversation('a'));
    await plane.post(conversations, aConversation('b'));
    const [first, second] = await watch.take();
    expect(first?.object.columnDefinitions).toHaveLength(15);
    expect(second?.object).toMatchObject({
      columnDefinitions: null,
      rows: [{ cells: expect.arrayContaining(['b']) as unknown[] }],
    });
  });

  it('that is not read is closed', async () => {
    const { body: stream } = await plane.plane.handle({
      method: 'GET',
      path: conversations,
      query: new URLSearchParams('watch=true'),
    });
    for (let index = 0; index <= 20; index += 1)
      await plane.post(conversations, aConversation(`a${index}`));
    expect(stream).toMatchObject({ ended: true });
  });

  it('leaves no timer behind', async () => {
    const watch = await plane.watch(`${conversations}?allowWatchBookmarks=true`);
    watch.stream.end();
    expect(plane.clock.timers).toBe(0);
  });
});

describe('discovery', () => {
  it('has OpenAPI documents whose references lead somewhere', async () => {
    const { body: index } = await plane.get('/openapi/v3');
    for (const path of Object.keys(index.paths as object)) {
      const { body } = await plane.get(`/openapi/v3/${path}`);
      const references = [
        ...JSON.stringify(body).matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g),
      ].map(([, name]) => name ?? '');
      expect(references.filter((name) => body.components.schemas[name] === undefined)).toEqual([]);
    }
  });

  it.each([
    '/nothing',
    '/api/v1/nothing',
    '/openapi/v2',
    '/api/v1/pods/x',
    inDefault('conversations', 'a', 'scale'),
    '/api/v1/namespaces/%',
  ])('does not know %s', async (path) => {
    expect([400, 404]).toContain((await plane.get(path)).status);
  });

  it('knows which methods there are', async () => {
    expect((await plane.call('PUT', conversations)).status).toBe(405);
  });
});

it('refuses a pod with a field of the wrong type', async () => {
  const answer = await plane.post(pods, { metadata: { name: 'p' }, spec: { containers: 'x' } });
  expect([answer.status, answer.body.message]).toEqual([
    400,
    expect.stringContaining('cannot be handled as a Pod'),
  ]);
});

it('keeps what is owned by a kind it does not know', async () => {
  const map = coreInDefault('configmaps', 'child');
  const ownerReferences = [{ apiVersion: 'apps/v1', kind: 'Deployment', name: 'x', uid: 'y' }];
  await plane.post(coreInDefault('configmaps'), { metadata: { name: 'child', ownerReferences } });
  await plane.clock.advance(10);
  expect((await plane.get(map)).status).toBe(200);
});

describe('definitions', () => {
  const crd = (name: string, schema: object): Body => ({
    metadata: { name: `${name}.example.com` },
    spec: {
      group: 'example.com',
      scope: 'Cluster',
      names: { kind: 'Thing', plural: name },
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: 'object', ...schema } },
        },
      ],
    },
  });
  const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';

  it('are served at once, and say so', async () => {
    const { body } = await plane.post(
      definitions,
      crd('things', { 'x-kubernetes-preserve-unknown-fields': true }),
    );
    expect(body.status.conditions).toMatchObject([
      { type: 'NamesAccepted' },
      { type: 'Established', status: 'True' },
    ]);
    const { status, body: thing } = await plane.post('/apis/example.com/v1/things', {
      apiVersion: 'example.com/v1',
      kind: 'Thing',
      metadata: { name: 'a' },
      anything: { goes: 1 },
      status: { kept: true },
    });
    expect([status, thing.anything, thing.status]).toEqual([201, { goes: 1 }, { kept: true }]);
  });

  it('of the product can be applied again without a change', async () => {
    const before = plane.plane.revision;
    await plane.start();
    expect(plane.plane.revision).toBe(before);
    expect((await plane.get(`${group}/conversations`)).status).toBe(200);
  });
});
