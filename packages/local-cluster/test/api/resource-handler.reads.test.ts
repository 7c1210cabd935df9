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

let plane: Plane;
afterEach(() => plane.close());

const conversations = inDefault('conversations');
const named = (name: string) => inDefault('conversations', name);
const table = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json' };
const seen = (events: readonly { type: string; object: Body }[]) =>
  events.map(({ type, object }) => `${type} ${object.metadata.name as string}`);

beforeEach(async () => {
  plane = await new Plane({ logCapacity: 50, maxWatchBacklog: 20 }).start();
});

describe('a list', () => {
  beforeEach(async () => {
    for (const name of ['c', 'a', 'b', 'd'])
      await plane.post(
        conversations,
        aConversation(name, { owner: name === 'a' ? 'bob' : 'alice' }, { labels: { l: name } }),
      );
  });
  const names = (body: Body): string[] =>
    body.items.map(({ metadata }: Body) => metadata.name as string) as string[];

  it('says its kind and version', async () => {
    const { body } = await plane.get(conversations);
    expect(body).toMatchObject({
      kind: 'ConversationList',
      apiVersion: 'conversation-operator.dev/v1alpha1',
      metadata: { resourceVersion: String(plane.plane.revision) },
    });
    expect(names(body)).toEqual(['a', 'b', 'c', 'd']);
  });

  it.each([
    ['labelSelector=l in (a,b)', ['a', 'b']],
    ['fieldSelector=metadata.name=c', ['c']],
    ['fieldSelector=spec.owner=bob', ['a']],
    ['fieldSelector=spec.owner!=bob&labelSelector=l!=d', ['b', 'c']],
  ])('selects by %s', async (query, expected) => {
    expect(names((await plane.get(`${group}/conversations?${query}`)).body)).toEqual(expected);
  });

  it('refuses a field that the kind does not select by', async () => {
    expect((await plane.get(`${conversations}?fieldSelector=spec.title=x`)).body.message).toBe(
      'field label not supported: spec.title',
    );
  });

  it('continues in the version in which it began', async () => {
    const { body: first } = await plane.get(`${conversations}?limit=2`);
    expect([names(first), first.metadata.remainingItemCount]).toEqual([['a', 'b'], 2]);
    await plane.remove(named('c'));
    await plane.post(conversations, aConversation('e'));
    const { body: rest } = await plane.get(
      `${conversations}?limit=2&continue=${first.metadata.continue as string}`,
    );
    expect([names(rest), rest.metadata.continue, rest.metadata.resourceVersion]).toEqual([
      ['c', 'd'],
      undefined,
      first.metadata.resourceVersion,
    ]);
  });

  it('that is continued too late is 410, one with a made-up token 400', async () => {
    const { body } = await plane.get(`${conversations}?limit=2`);
    plane.plane.compactTo(plane.plane.revision + 1);
    const late = await plane.get(
      `${conversations}?limit=2&continue=${body.metadata.continue as string}`,
    );
    expect([late.status, late.body.reason]).toEqual([410, 'Expired']);
    expect((await plane.get(`${conversations}?continue=xyz`)).status).toBe(400);
  });

  it('of a version', async () => {
    const version = plane.plane.revision;
    await plane.remove(named('a'));
    expect(names((await plane.get(`${conversations}?resourceVersion=0`)).body)).toHaveLength(3);
    const future = await plane.get(`${conversations}?resourceVersion=${version + 100}`);
    expect([future.status, future.body.details.causes[0].reason]).toEqual([
      504,
      'ResourceVersionTooLarge',
    ]);
  });
});

describe('a table', () => {
  it('has the columns of the definition', async () => {
    await plane.post(conversations, aConversation('a', { repository: { name: 'o/r' } }));
    await plane.merge(inDefault('conversations', 'a', 'status'), {
      status: { executionStatus: 'running' },
    });
    await plane.clock.advance(300_000);
    const { body } = await plane.get(conversations, table);
    expect(body.kind).toBe('Table');
    const columns: Body[] = body.columnDefinitions;
    const cell = (name: string): unknown =>
      body.rows[0].cells[columns.findIndex((column) => column.name === name)];
    expect(['Name', 'Execution', 'Repository', 'Owner', 'Sandbox', 'Age'].map(cell)).toEqual([
      'a',
      'running',
      'o/r',
      'alice',
      null,
      '5m',
    ]);
    expect(columns.find(({ name }) => name === 'Sandbox-Name').priority).toBe(1);
    expect(body.rows[0].object).toMatchObject({
      kind: 'PartialObjectMetadata',
      metadata: { name: 'a' },
    });
  });

  it('carries as much of the object as is asked for', async () => {
    await plane.post(conversations, aConversation('a'));
    expect(
      (await plane.get(`${conversations}?includeObject=Object`, table)).body.rows[0].object.spec
        .owner,
    ).toBe('alice');
  });

  it('of pods reports their states', async () => {
    await plane.post(coreInDefault('pods'), aPod('p'));
    const row = async (): Promise<unknown[]> =>
      (await plane.get(coreInDefault('pods'), table)).body.rows[0].cells.slice(0, 4) as unknown[];
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
});

describe('a watch', () => {
  it('from a version sees every change after it', async () => {
    const version = plane.plane.revision;
    await plane.post(conversations, aConversation('a'));
    const watch = await plane.watch(`${conversations}?resourceVersion=${version}`);
    await plane.merge(named('a'), { spec: { title: 't' } });
    await plane.remove(named('a'));
    await plane.post(coreInDefault('pods'), aPod('p'));
    const events = await watch.take();
    expect(seen(events)).toEqual(['ADDED a', 'MODIFIED a', 'DELETED a']);
    expect(Number(events[2]?.object.metadata.resourceVersion)).toBeGreaterThan(
      Number(events[1]?.object.metadata.resourceVersion),
    );
  });

  it('without a version begins with what there is', async () => {
    await plane.post(conversations, aConversation('a'));
    const watch = await plane.watch(conversations);
    expect(seen(await watch.take())).toEqual(['ADDED a']);
  });

  it('reports where the beginning ends on request', async () => {
    await plane.post(conversations, aConversation('a'));
    const watch = await plane.watch(
      `${conversations}?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan`,
    );
    expect((await watch.take()).at(-1)).toMatchObject({
      type: 'BOOKMARK',
      object: {
        kind: 'Conversation',
        metadata: {
          annotations: { 'k8s.io/initial-events-end': 'true' },
          resourceVersion: String(plane.plane.revision),
        },
      },
    });
  });

  it('sees objects enter and leave its selection', async () => {
    const watch = await plane.watch(`${conversations}?labelSelector=l=1`);
    await plane.post(conversations, aConversation('a'));
    await plane.merge(named('a'), { metadata: { labels: { l: '1' } } });
    await plane.merge(named('a'), { spec: { title: 't' } });
    const { body } = await plane.merge(named('a'), { metadata: { labels: { l: '2' } } });
    await plane.remove(named('a'));
    const events = await watch.take();
    expect(seen(events)).toEqual(['ADDED a', 'MODIFIED a', 'DELETED a']);
    expect(events[2]?.object.metadata).toMatchObject({
      labels: { l: '1' },
      resourceVersion: body.metadata.resourceVersion as string,
    });
  });

  it('of one field value sees it come and go', async () => {
    await plane.post(coreInDefault('pods'), aPod('p'));
    const watch = await plane.watch(`${coreInDefault('pods')}?fieldSelector=status.phase=Running`);
    await plane.merge(coreInDefault('pods', 'p', 'status'), { status: { phase: 'Running' } });
    await plane.merge(coreInDefault('pods', 'p', 'status'), { status: { phase: 'Failed' } });
    expect(seen(await watch.take())).toEqual(['ADDED p', 'DELETED p']);
  });

  it('from a version that is too old receives 410, and ends', async () => {
    plane.plane.compactTo(plane.plane.revision);
    const watch = await plane.watch(`${conversations}?resourceVersion=1`);
    expect(await watch.take()).toMatchObject([
      {
        type: 'ERROR',
        object: {
          code: 410,
          reason: 'Expired',
          message: expect.stringMatching(/^too old resource version: 1 \(\d+\)$/) as string,
        },
      },
    ]);
    expect(watch.stream.ended).toBe(true);
  });

  it('ends after its time, with a bookmark', async () => {
    const watch = await plane.watch(`${conversations}?timeoutSeconds=10&allowWatchBookmarks=true`);
    await plane.clock.advance(9999);
    expect(watch.stream.ended).toBe(false);
    await plane.clock.advance(1);
    expect(await watch.take()).toMatchObject([{ type: 'BOOKMARK' }]);
    expect(watch.stream.ended).toBe(true);
  });

  it('gets a bookmark each minute, at the latest version', async () => {
    const watch = await plane.watch(`${conversations}?allowWatchBookmarks=true`);
    const { body } = await plane.post(coreInDefault('pods'), aPod('p'));
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
    expect(first?.object.columnDefinitions).toHaveLength(14);
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
  it('is reported in the aggregated form', async () => {
    expect((await plane.get('/apis')).status).toBe(406);
    const { body, headers } = await plane.get('/apis', {
      accept:
        'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json',
    });
    expect(headers['content-type']).toBe(
      'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList',
    );
    const ours = body.items.find(
      ({ metadata }: Body) => metadata.name === 'conversation-operator.dev',
    ).versions[0].resources;
    expect(ours.find(({ resource }: Body) => resource === 'conversations')).toMatchObject({
      scope: 'Namespaced',
      shortNames: ['conv'],
      singularResource: 'conversation',
    });
  });

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

  it.each(['/healthz', '/readyz', '/livez', '/version'])('answers %s', async (path) => {
    expect((await plane.get(path)).status).toBe(200);
  });

  it.each([
    '/nothing',
    '/apis/none',
    '/apis/none/v1',
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
