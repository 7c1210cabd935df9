import { useServer } from './support/server.ts';
import type { Document } from './support/document.ts';

const server = useServer();
const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json';

interface Table {
  readonly columnDefinitions: readonly {
    readonly name: string;
    readonly type: string;
    readonly format: string;
    readonly priority: number;
  }[];
  readonly rows: readonly { readonly cells: readonly unknown[]; readonly object: Document }[];
}
const tableOf = (text: string): Table => JSON.parse(text) as Table;

beforeAll(async () => {
  await server().post(
    server().widgets(),
    server().widget('t1', { weight: 1.5, since: '2001-01-01T00:00:00Z' }, { labels: { set: 't' } }),
  );
  await server().mergePatch(server().widgets('t1', 'status'), {
    status: { ready: true, conditions: [{ type: 'Ready', status: 'False' }] },
  });
  await server().post(server().widgets(), server().widget('t2', {}, { labels: { set: 't' } }));
});

describe('a table', () => {
  it('has the columns that the definition names', async () => {
    const { status, text, body, headers } = await server().get(server().widgets(), { accept });
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('application/json');
    expect([body.kind, body.apiVersion, body.metadata.resourceVersion]).toEqual([
      'Table',
      'meta.k8s.io/v1',
      expect.stringMatching(/^\d+$/),
    ]);
    expect(
      tableOf(text).columnDefinitions.map(({ name, type, format, priority }) => [
        name,
        type,
        format,
        priority,
      ]),
    ).toEqual([
      ['Name', 'string', 'name', 0],
      ['Color', 'string', '', 0],
      ['Size', 'integer', '', 0],
      ['Weight', 'number', '', 1],
      ['Ready', 'boolean', '', 0],
      ['Since', 'date', '', 0],
      ['Condition', 'string', '', 0],
      ['Age', 'date', '', 0],
    ]);
  });

  it('has a cell for each, or none', async () => {
    const { text } = await server().get(server().widgets(), {
      accept,
      query: { labelSelector: 'set=t' },
    });
    const cells = tableOf(text).rows.map((row) => row.cells);
    expect(cells).toEqual([
      [
        't1',
        'green',
        5,
        1.5,
        true,
        expect.stringMatching(/^2\dy/),
        'False',
        expect.stringMatching(/^\d+s$/),
      ],
      ['t2', 'green', 5, null, null, null, null, expect.stringMatching(/^\d+s$/)],
    ]);
  });

  it('carries the metadata of its rows, unless the request says otherwise', async () => {
    const rows = async (includeObject?: string) =>
      tableOf(
        (
          await server().get(server().widgets(), {
            accept,
            query: includeObject === undefined ? {} : { includeObject },
          })
        ).text,
      ).rows;
    const [plain] = await rows();
    expect(plain?.object).toMatchObject({
      kind: 'PartialObjectMetadata',
      apiVersion: 'meta.k8s.io/v1',
      metadata: { name: 't1' },
    });
    expect(plain?.object).not.toHaveProperty('spec');
    const [whole] = await rows('Object');
    expect(whole?.object).toMatchObject({ kind: 'Widget', spec: { color: 'green' } });
  });

  it('is made of one object too', async () => {
    const { text } = await server().get(server().widgets('t1'), { accept });
    expect(tableOf(text).rows.map(({ cells }) => cells[0])).toEqual(['t1']);
  });

  it('comes in pages', async () => {
    const { text, body } = await server().get(server().widgets(), { accept, query: { limit: 1 } });
    expect(tableOf(text).rows).toHaveLength(1);
    expect(body.metadata).toMatchObject({
      continue: expect.any(String) as unknown,
      remainingItemCount: 1,
    });
  });

  it('is watched row by row', async () => {
    const { body } = await server().get(server().widgets());
    const reply = server().get(server().widgets(), {
      accept,
      query: {
        watch: true,
        timeoutSeconds: 1,
        resourceVersion: String(Number(body.metadata.resourceVersion)),
      },
    });
    await server().mergePatch(server().widgets('t2'), { spec: { size: 6 } });
    const { text } = await reply;
    const [event] = text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as { type: string; object: Table & Document });
    expect([event?.type, event?.object.kind, event?.object.rows[0]?.cells.slice(0, 3)]).toEqual([
      'MODIFIED',
      'Table',
      ['t2', 'green', 6],
    ]);
    await server().mergePatch(server().widgets('t2'), { spec: { size: 5 } });
  });

  it.each<[string, string, readonly string[]]>([
    [
      'pods',
      'v1',
      [
        'Name',
        'Ready',
        'Status',
        'Restarts',
        'Age',
        'IP',
        'Node',
        'Nominated Node',
        'Readiness Gates',
      ],
    ],
    ['configmaps', 'v1', ['Name', 'Data', 'Age']],
    ['secrets', 'v1', ['Name', 'Type', 'Data', 'Age']],
    ['serviceaccounts', 'v1', ['Name', 'Secrets', 'Age']],
    [
      'events',
      'v1',
      [
        'Last Seen',
        'Type',
        'Reason',
        'Object',
        'Subobject',
        'Source',
        'Message',
        'First Seen',
        'Count',
        'Name',
      ],
    ],
    [
      'persistentvolumeclaims',
      'v1',
      [
        'Name',
        'Status',
        'Volume',
        'Capacity',
        'Access Modes',
        'StorageClass',
        'VolumeAttributesClass',
        'Age',
        'VolumeMode',
      ],
    ],
  ])('of %s has the columns that kubectl shows', async (plural, _, names) => {
    const { text } = await server().get(server().core(plural), { accept });
    expect(tableOf(text).columnDefinitions.map(({ name }) => name)).toEqual(names);
  });

  it('of leases and namespaces too', async () => {
    const leases = await server().get(server().leases(), { accept });
    expect(tableOf(leases.text).columnDefinitions.map(({ name }) => name)).toEqual([
      'Name',
      'Holder',
      'Age',
    ]);
    const namespaces = await server().get('/api/v1/namespaces', { accept });
    expect(tableOf(namespaces.text).columnDefinitions.map(({ name }) => name)).toEqual([
      'Name',
      'Status',
      'Age',
    ]);
  });
});

describe('metadata only', () => {
  it('is what is asked of an object', async () => {
    const { body } = await server().get(server().widgets('t1'), {
      accept: 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io',
    });
    expect(body).toMatchObject({
      kind: 'PartialObjectMetadata',
      apiVersion: 'meta.k8s.io/v1',
      metadata: { name: 't1' },
    });
    expect(body).not.toHaveProperty('spec');
  });

  it('is what is asked of an object that is made', async () => {
    const made = server().widget('t3', { color: 'red' });
    const { status, body } = await server().post(server().widgets(), made, {
      accept: 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json',
      query: { dryRun: 'All' },
    });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      kind: 'PartialObjectMetadata',
      metadata: { name: 't3', uid: expect.any(String) as unknown },
    });
    expect(body).not.toHaveProperty('spec');
  });

  it('is what is asked of a list', async () => {
    const { body } = await server().get(server().widgets(), {
      accept: 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io',
    });
    expect(body.kind).toBe('PartialObjectMetadataList');
    expect(body.items.map(({ metadata }) => metadata.name)).toEqual(['t1', 't2']);
    expect(body.items[0]).not.toHaveProperty('spec');
  });
});
