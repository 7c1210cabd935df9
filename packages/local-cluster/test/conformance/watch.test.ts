import { canForget, install, useServer } from './support/server.ts';
import type { Watch } from './support/watch.ts';

const server = useServer();
const open: Watch[] = [];
afterEach(() => {
  for (const watch of open.splice(0)) watch.close();
});

async function watching(
  query: Record<string, string | number | boolean> = {},
  path = server().widgets(),
): Promise<Watch> {
  const watch = await server().watch(path, {
    ...query,
    timeoutSeconds: query['timeoutSeconds'] ?? 60,
  });
  open.push(watch);
  return watch;
}
const now = async (): Promise<string> =>
  (await server().get(server().widgets())).body.metadata.resourceVersion;
const make = (name: string, spec: object = {}, metadata: object = {}) =>
  server().post(server().widgets(), server().widget(name, spec, metadata));
const change = (name: string, patch: object) => server().mergePatch(server().widgets(name), patch);
const remove = (name: string) => server().delete(server().widgets(name));

describe('a watch from a version', () => {
  it('reports everything after it, in order', async () => {
    const resourceVersion = await now();
    await make('w1');
    await change('w1', { spec: { size: 6 } });
    await remove('w1');
    const watch = await watching({ resourceVersion });
    expect(await watch.take(3)).toEqual(['ADDED w1', 'MODIFIED w1', 'DELETED w1']);
  });

  it('continues with what comes', async () => {
    const watch = await watching({ resourceVersion: await now() });
    await make('w2');
    const { type, object } = await watch.next();
    expect([type, object.metadata.name, object.kind]).toEqual(['ADDED', 'w2', 'Widget']);
    const { body: changed } = await change('w2', { spec: { size: 6 } });
    expect((await watch.next()).object).toEqual(changed);
  });

  it('shows the last state of what is deleted, under the version of its deletion', async () => {
    const { body: made } = await make('w3');
    const watch = await watching({ resourceVersion: await now() });
    await remove('w3');
    const { type, object } = await watch.next();
    expect(type).toBe('DELETED');
    expect(object.metadata.uid).toBe(made.metadata.uid);
    expect(Number(object.metadata.resourceVersion)).toBeGreaterThan(
      Number(made.metadata.resourceVersion),
    );
  });

  it('reports no write that changed nothing', async () => {
    await make('w4');
    const watch = await watching({ resourceVersion: await now() });
    await change('w4', { spec: { size: 5 } });
    await make('w5');
    expect(await watch.take(1)).toEqual(['ADDED w5']);
  });

  it('ends when its time is over', async () => {
    const watch = await watching({ resourceVersion: await now(), timeoutSeconds: 1 });
    expect(await watch.rest()).toEqual([]);
  });

  it('begins with 410 when the version is forgotten', async () => {
    await make('w6');
    // The cache of a real server begins with its kind, so there it knows nothing of version 1 in
    // any case.
    if (canForget) await server().forget();
    const watch = await watching({ resourceVersion: '1' });
    const { type, object } = await watch.next();
    expect(watch.status).toBe(200);
    expect(type).toBe('ERROR');
    expect(object).toMatchObject({
      kind: 'Status',
      apiVersion: 'v1',
      status: 'Failure',
      reason: 'Expired',
      code: 410,
    });
    expect(object.message).toMatch(/^too old resource version: 1 \(\d+\)$/);
    expect(await watch.rest()).toEqual([]);
  });
});

describe('a watch without a version', () => {
  it('begins with what is there', async () => {
    await make('x1', {}, { labels: { set: 'x' } });
    await make('x2', {}, { labels: { set: 'x' } });
    for (const query of [{}, { resourceVersion: '0' }]) {
      const watch = await watching({ ...query, labelSelector: 'set=x' });
      expect([...(await watch.take(2))].sort()).toEqual(['ADDED x1', 'ADDED x2']);
    }
  });
});

describe('a watch with initial events', () => {
  it('reports what is there, then marks the end of it', async () => {
    await make('i1', {}, { labels: { set: 'i' } });
    await make('i2', {}, { labels: { set: 'i' } });
    const watch = await watching({
      labelSelector: 'set=i',
      sendInitialEvents: true,
      resourceVersionMatch: 'NotOlderThan',
      allowWatchBookmarks: true,
    });
    expect([...(await watch.take(2))].sort()).toEqual(['ADDED i1', 'ADDED i2']);
    const { type, object } = await watch.next();
    expect(type).toBe('BOOKMARK');
    expect(object).toMatchObject({
      kind: 'Widget',
      metadata: { annotations: { 'k8s.io/initial-events-end': 'true' } },
    });
    expect(Number(object.metadata.resourceVersion)).toBeGreaterThan(0);
    await make('i3', {}, { labels: { set: 'i' } });
    expect(await watch.take(1)).toEqual(['ADDED i3']);
  });
});

describe('bookmarks', () => {
  it('come before a watch ends, when they are wanted', async () => {
    await make('b1');
    const version = await now();
    const watch = await watching({
      resourceVersion: version,
      allowWatchBookmarks: true,
      timeoutSeconds: 6,
    });
    await make('b2');
    const events = await watch.rest();
    const bookmarks = events.filter(({ type }) => type === 'BOOKMARK');
    expect(bookmarks.length).toBeGreaterThan(0);
    expect(bookmarks[0]?.object).toMatchObject({
      kind: 'Widget',
      apiVersion: `${server().widgetGroup}/v1`,
    });
    expect(Number(bookmarks[0]?.object.metadata.resourceVersion)).toBeGreaterThanOrEqual(
      Number(version),
    );
  });

  it('do not come otherwise', async () => {
    const watch = await watching({ resourceVersion: await now(), timeoutSeconds: 3 });
    expect(await watch.rest()).toEqual([]);
  });
});

describe('a watch with a selector', () => {
  it('reports what comes into it and leaves it', async () => {
    const watch = await watching({ resourceVersion: await now(), labelSelector: 'team=red' });
    await make('s1');
    await change('s1', { metadata: { labels: { team: 'red' } } });
    await change('s1', { spec: { size: 6 } });
    await change('s1', { metadata: { labels: { team: 'blue' } } });
    await change('s1', { spec: { size: 7 } });
    await remove('s1');
    await make('s2', {}, { labels: { team: 'red' } });
    expect(await watch.take(4)).toEqual(['ADDED s1', 'MODIFIED s1', 'DELETED s1', 'ADDED s2']);
  });

  it('shows what leaves it as it was when it was in it', async () => {
    await make('s3', {}, { labels: { team: 'red' } });
    const watch = await watching({ resourceVersion: await now(), labelSelector: 'team=red' });
    const { body: changed } = await change('s3', { metadata: { labels: { team: 'blue' } } });
    const { type, object } = await watch.next();
    expect([type, object.metadata.labels]).toEqual(['DELETED', { team: 'red' }]);
    expect(object.metadata.resourceVersion).toBe(changed.metadata.resourceVersion);
  });

  it('works by fields', async () => {
    const watch = await watching({
      resourceVersion: await now(),
      fieldSelector: 'status.phase=New',
    });
    await make('s4');
    await server().mergePatch(server().widgets('s4', 'status'), { status: { phase: 'New' } });
    await server().mergePatch(server().widgets('s4', 'status'), { status: { phase: 'Old' } });
    expect(await watch.take(2)).toEqual(['ADDED s4', 'DELETED s4']);
  });

  it('works on one object', async () => {
    await make('s5');
    const watch = await watching({
      resourceVersion: await now(),
      fieldSelector: 'metadata.name=s5',
    });
    await make('s6');
    await change('s5', { spec: { size: 6 } });
    expect(await watch.take(1)).toEqual(['MODIFIED s5']);
  });

  it('is refused by fields that are not selectable', async () => {
    expect((await watching({ fieldSelector: 'spec.label=x' })).status).toBe(400);
  });
});

describe('watching more', () => {
  it('spans all namespaces without one in the path', async () => {
    const watch = await watching(
      { resourceVersion: await now() },
      `/apis/${server().widgetGroup}/v1/widgets`,
    );
    await make('m1');
    const { object } = await watch.next();
    expect(object.metadata).toMatchObject({ name: 'm1', namespace: server().namespace });
  });

  it('works on built-in kinds', async () => {
    const { body } = await server().get(server().core('configmaps'));
    const watch = await watching(
      { resourceVersion: body.metadata.resourceVersion },
      server().core('configmaps'),
    );
    await server().post(server().core('configmaps'), {
      metadata: { name: 'm2' },
      data: { a: 'b' },
    });
    const { type, object } = await watch.next();
    expect([type, object]).toEqual([
      'ADDED',
      expect.objectContaining({ kind: 'ConfigMap', apiVersion: 'v1', data: { a: 'b' } }),
    ]);
  });

  it('ends when the definition of its kind goes', async () => {
    const group = `gone.${server().widgetGroup}`;
    const definition = {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: `things.${group}` },
      spec: {
        group,
        scope: 'Namespaced',
        names: { kind: 'Thing', plural: 'things', singular: 'thing' },
        versions: [
          {
            name: 'v1',
            served: true,
            storage: true,
            schema: { openAPIV3Schema: { type: 'object' } },
          },
        ],
      },
    };
    await install(server(), definition);
    const watch = await watching({}, `/apis/${group}/v1/things`);
    await server().delete(
      `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.${group}`,
    );
    expect(await watch.rest()).toEqual([]);
  });
});
