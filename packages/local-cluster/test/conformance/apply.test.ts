import { exceptions } from './exceptions.ts';
import { useServer } from './support/server.ts';
import type { Document } from './support/document.ts';

const server = useServer();

const managersOf = ({ metadata }: Document) =>
  (metadata.managedFields ?? []).map(
    ({ manager, operation, subresource }) =>
      `${manager} ${operation}${subresource === undefined ? '' : ` ${subresource}`}`,
  );
const fieldsOf = ({ metadata }: Document, manager: string): unknown =>
  metadata.managedFields?.find((entry) => entry.manager === manager)?.fieldsV1;

/** A widget as a client applies it: only the fields that the client owns. */
const wish = (name: string, spec: object, metadata: object = {}) => ({
  apiVersion: `${server().widgetGroup}/v1`,
  kind: 'Widget',
  metadata: { name, ...metadata },
  spec,
});
const apply = (name: string, spec: object, manager: string, query = {}) =>
  server().apply(server().widgets(name), wish(name, spec), manager, query);

describe('apply', () => {
  it('creates what is not there', async () => {
    const { status, body } = await apply('a1', { color: 'green', size: 7 }, 'alice');
    expect(status).toBe(201);
    expect(body).toMatchObject({
      metadata: { generation: 1 },
      spec: { color: 'green', size: 7, replicas: 1 },
    });
    expect(managersOf(body)).toEqual(['alice Apply']);
    expect(fieldsOf(body, 'alice')).toEqual({ 'f:spec': { 'f:color': {}, 'f:size': {} } });
  });

  it('changes nothing when it is repeated', async () => {
    const { body: made } = await apply('a2', { color: 'green' }, 'alice');
    const { status, body } = await apply('a2', { color: 'green' }, 'alice');
    expect([status, body.metadata.resourceVersion]).toEqual([200, made.metadata.resourceVersion]);
  });

  it('takes away what its manager no longer wishes', async () => {
    await apply('a3', { color: 'green', label: 'abc', attributes: { x: '1', y: '2' } }, 'alice');
    const { body } = await apply('a3', { color: 'green', attributes: { y: '2' } }, 'alice');
    expect(body.spec).not.toHaveProperty('label');
    expect(body.spec['attributes']).toEqual({ y: '2' });
  });

  it('leaves what others wish', async () => {
    await apply('a4', { color: 'green', label: 'abc' }, 'alice');
    await apply('a4', { color: 'green', size: 9 }, 'bob');
    const { body } = await apply('a4', { color: 'green' }, 'alice');
    expect(body.spec).toMatchObject({ size: 9 });
    expect(body.spec).not.toHaveProperty('label');
    expect([...managersOf(body)].sort()).toEqual(['alice Apply', 'bob Apply']);
  });

  it('keeps what two managers wish until both let it go', async () => {
    await apply('a5', { color: 'green', label: 'abc' }, 'alice');
    await apply('a5', { color: 'green', label: 'abc' }, 'bob');
    const { body: one } = await apply('a5', { color: 'green' }, 'alice');
    expect(one.spec).toMatchObject({ label: 'abc' });
    const { body: none } = await apply('a5', { color: 'green' }, 'bob');
    expect(none.spec).not.toHaveProperty('label');
  });

  it('conflicts with another manager of the same field', async () => {
    await apply('a6', { color: 'green', size: 7 }, 'alice');
    const { status, body } = await apply('a6', { color: 'green', size: 8 }, 'bob');
    expect(status).toBe(409);
    expect(body).toMatchObject({
      reason: 'Conflict',
      message: 'Apply failed with 1 conflict: conflict with "alice": .spec.size',
      details: {
        causes: [
          { reason: 'FieldManagerConflict', message: 'conflict with "alice"', field: '.spec.size' },
        ],
      },
    });
  });

  it('reports all conflicts at once', async () => {
    await apply('a7', { color: 'green', size: 7 }, 'alice');
    await server().mergePatch(
      server().widgets('a7'),
      { spec: { label: 'abc' } },
      { query: { fieldManager: 'carol' } },
    );
    const { body } = await apply('a7', { color: 'green', size: 8, label: 'xyz' }, 'bob');
    expect(body.message).toBe(
      `Apply failed with 2 conflicts: conflicts with "alice":\n- .spec.size\nconflicts with "carol" using ${server().widgetGroup}/v1:\n- .spec.label`,
    );
  });

  it('takes the field over by force', async () => {
    await apply('a8', { color: 'green', size: 7 }, 'alice');
    const { status, body } = await apply('a8', { color: 'green', size: 8 }, 'bob', { force: true });
    expect([status, body.spec['size']]).toEqual([200, 8]);
    expect(fieldsOf(body, 'alice')).toEqual({ 'f:spec': { 'f:color': {} } });
    expect(fieldsOf(body, 'bob')).toEqual({ 'f:spec': { 'f:color': {}, 'f:size': {} } });
  });

  it('conflicts with an update of the field', async () => {
    await apply('a9', { color: 'green', size: 7 }, 'alice');
    await server().mergePatch(
      server().widgets('a9'),
      { spec: { size: 8 } },
      { query: { fieldManager: 'editor' } },
    );
    const { status, body } = await apply('a9', { color: 'green', size: 7 }, 'alice');
    expect(status).toBe(409);
    expect(body.message).toMatch(
      /^Apply failed with 1 conflict: conflict with "editor" using \S+\/v1: \.spec\.size$/,
    );
  });

  it('conflicts over a map that is empty, and so not stored', async () => {
    const empty = (spec: object) => wish('a18', { color: 'green', ...spec }, { labels: {} });
    await server().apply(server().widgets('a18'), empty({ size: 7 }), 'alice');
    const { status, body } = await server().apply(
      server().widgets('a18'),
      empty({ label: 'abc' }),
      'bob',
    );
    expect([status, body.message]).toEqual([
      409,
      'Apply failed with 1 conflict: conflict with "alice": .metadata.labels',
    ]);
  });

  it('needs a manager', async () => {
    const { status, body } = await server().send('PATCH', server().widgets('a10'), {
      body: wish('a10', { color: 'green' }),
      contentType: 'application/apply-patch+yaml',
    });
    expect(status).toBe(422);
    expect(body.message).toContain('fieldManager: Required value: is required for apply patch');
  });

  it('needs a version and a kind', async () => {
    const { status } = await server().apply(
      server().widgets('a11'),
      { metadata: { name: 'a11' }, spec: { color: 'green' } },
      'alice',
    );
    expect(status).toBe(400);
  });

  it('refuses managed fields of the client', async () => {
    const { status, body } = await server().apply(
      server().widgets('a12'),
      wish(
        'a12',
        { color: 'green' },
        {
          managedFields: [
            { manager: 'x', operation: 'Apply', apiVersion: `${server().widgetGroup}/v1` },
          ],
        },
      ),
      'alice',
    );
    expect([status, body.message]).toEqual([400, 'metadata.managedFields must be nil']);
  });

  it('is not for another manager to force', async () => {
    await server().post(server().widgets(), server().widget('a13'));
    const { status, body } = await server().mergePatch(
      server().widgets('a13'),
      { spec: {} },
      { query: { force: true } },
    );
    expect(status).toBe(422);
    expect(body.message).toContain('force: Forbidden: may not be specified for non-apply patch');
  });

  it('reads YAML', async () => {
    const text = `apiVersion: ${server().widgetGroup}/v1\nkind: Widget\nmetadata:\n  name: a14\nspec:\n  color: green\n  tags: [a]\n`;
    const { status, body } = await server().apply(server().widgets('a14'), text, 'alice');
    expect([status, body.spec['tags']]).toEqual([201, ['a']]);
  });

  it('must name what the path names', async () => {
    const { status, body } = await server().apply(
      server().widgets('a15'),
      wish('other', { color: 'green' }),
      'alice',
    );
    expect([status, body.message]).toEqual([
      400,
      'the name of the object (other) does not match the name on the URL (a15)',
    ]);
  });

  it('is checked like anything else', async () => {
    const { status, body } = await apply('a16', { color: 'pink' }, 'alice');
    expect([status, body.reason]).toEqual([422, 'Invalid']);
  });

  it('refuses the same key twice', async () => {
    const { status } = await apply(
      'a17',
      { color: 'green', ports: [{ port: 1 }, { port: 1 }] },
      'alice',
    );
    expect(status).toBe(500);
  });
});

describe('apply to lists', () => {
  it('merges a map by its keys', async () => {
    await apply(
      'l1',
      { color: 'green', ports: [{ port: 1, protocol: 'TCP', name: 'one' }] },
      'alice',
    );
    const { body } = await apply(
      'l1',
      { color: 'green', ports: [{ port: 2, protocol: 'TCP', name: 'two' }] },
      'bob',
    );
    expect(body.spec['ports']).toEqual([
      { port: 1, protocol: 'TCP', name: 'one' },
      { port: 2, protocol: 'TCP', name: 'two' },
    ]);
    expect(fieldsOf(body, 'bob')).toEqual({
      'f:spec': {
        'f:color': {},
        'f:ports': {
          'k:{"port":2,"protocol":"TCP"}': {
            '.': {},
            'f:name': {},
            'f:port': {},
            'f:protocol': {},
          },
        },
      },
    });
    const { body: left } = await apply('l1', { color: 'green' }, 'alice');
    expect(left.spec['ports']).toEqual([{ port: 2, protocol: 'TCP', name: 'two' }]);
  });

  it('knows an item by the default of its key', async () => {
    await apply('l2', { color: 'green', ports: [{ port: 1, name: 'one' }] }, 'alice');
    const { body } = await apply(
      'l2',
      { color: 'green', ports: [{ port: 1, protocol: 'TCP', name: 'uno' }] },
      'alice',
    );
    expect(body.spec['ports']).toEqual([{ port: 1, protocol: 'TCP', name: 'uno' }]);
  });

  it('merges a set by its members', async () => {
    await apply('l3', { color: 'green', tags: ['a', 'b'] }, 'alice');
    const { body } = await apply('l3', { color: 'green', tags: ['b', 'c'] }, 'bob');
    expect(body.spec['tags']).toEqual(['a', 'b', 'c']);
    expect(fieldsOf(body, 'alice')).toEqual({
      'f:spec': { 'f:color': {}, 'f:tags': { 'v:"a"': {}, 'v:"b"': {} } },
    });
    const { body: left } = await apply('l3', { color: 'green' }, 'alice');
    expect(left.spec['tags']).toEqual(['b', 'c']);
  });

  it('takes other lists, and atomic objects, as a whole', async () => {
    await apply('l4', { color: 'green', steps: ['a'], box: { a: '1' } }, 'alice');
    const { status } = await apply('l4', { color: 'green', steps: ['b'], box: { b: '2' } }, 'bob');
    expect(status).toBe(409);
    const { body } = await apply('l4', { color: 'green', steps: ['b'], box: { b: '2' } }, 'bob', {
      force: true,
    });
    expect(body.spec).toMatchObject({ steps: ['b'], box: { b: '2' } });
    expect(body.spec['box']).toEqual({ b: '2' });
    expect(fieldsOf(body, 'alice')).toEqual({ 'f:spec': { 'f:color': {} } });
  });
});

describe('apply and others', () => {
  it('owns the status by its own path', async () => {
    await apply('o1', { color: 'green' }, 'alice');
    const { status, body } = await server().apply(
      server().widgets('o1', 'status'),
      {
        apiVersion: `${server().widgetGroup}/v1`,
        kind: 'Widget',
        metadata: { name: 'o1' },
        status: { conditions: [{ type: 'Ready', status: 'True' }] },
      },
      'reporter',
    );
    expect(status).toBe(200);
    expect([...managersOf(body)].sort()).toEqual(['alice Apply', 'reporter Apply status']);
    expect(fieldsOf(body, 'reporter')).toEqual({
      'f:status': {
        'f:conditions': { 'k:{"type":"Ready"}': { '.': {}, 'f:status': {}, 'f:type': {} } },
      },
    });
  });

  exceptions.managedFields.it('shares what an update has set to the same value', async () => {
    await server().post(server().widgets(), server().widget('o2', { size: 7 }), {
      query: { fieldManager: 'maker' },
    });
    const { status, body } = await apply('o2', { size: 7 }, 'alice');
    expect([status, [...managersOf(body)].sort()]).toEqual([200, ['alice Apply', 'maker Update']]);
  });

  it('works on labels and finalizers', async () => {
    const { body } = await server().apply(
      server().widgets('o3'),
      wish(
        'o3',
        { color: 'green' },
        { labels: { a: 'b' }, annotations: { c: 'd' }, finalizers: ['a.b/c'] },
      ),
      'alice',
    );
    expect(fieldsOf(body, 'alice')).toEqual({
      'f:metadata': {
        'f:annotations': { 'f:c': {} },
        'f:finalizers': { 'v:"a.b/c"': {} },
        'f:labels': { 'f:a': {} },
      },
      'f:spec': { 'f:color': {} },
    });
    const { body: bare } = await apply('o3', { color: 'green' }, 'alice');
    expect(bare.metadata).not.toHaveProperty('labels');
    expect(bare.metadata).not.toHaveProperty('finalizers');
  });

  it('works on built-in kinds', async () => {
    const container = (name: string, image: string) => ({ name, image });
    const podOf = (containers: object) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'o4' },
      spec: { containers },
    });
    const { status, body } = await server().apply(
      server().core('pods', 'o4'),
      podOf([container('a', 'a:1'), container('b', 'b:1')]),
      'alice',
    );
    expect(status).toBe(201);
    expect(fieldsOf(body, 'alice')).toEqual({
      'f:spec': {
        'f:containers': {
          'k:{"name":"a"}': { '.': {}, 'f:image': {}, 'f:name': {} },
          'k:{"name":"b"}': { '.': {}, 'f:image': {}, 'f:name': {} },
        },
      },
    });
    const { body: changed } = await server().apply(
      server().core('pods', 'o4'),
      podOf([container('a', 'a:2'), container('b', 'b:1')]),
      'alice',
    );
    expect(changed.spec['containers']).toMatchObject([{ image: 'a:2' }, { image: 'b:1' }]);
  });

  it('refuses an unknown field of a built-in kind', async () => {
    const { status, body } = await server().apply(
      server().core('configmaps', 'o5'),
      { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'o5' }, bogus: 1 },
      'alice',
    );
    expect(status).toBe(500);
    expect(body.message).toContain('.bogus: field not declared in schema');
  });

  it('is forgotten when a client clears the managed fields', async () => {
    const { body: made } = await apply('o6', { color: 'green' }, 'alice');
    const { body } = await server().mergePatch(server().widgets('o6'), {
      metadata: { managedFields: [{}] },
    });
    expect(body.metadata).not.toHaveProperty('managedFields');
    expect(made.metadata.managedFields).toHaveLength(1);
  });

  it.each([
    ['too long', 'x'.repeat(129)],
    ['not printable', 'a\u0007'],
  ])('refuses a manager whose name is %s', async (_, fieldManager) => {
    const { status, body } = await server().post(
      server().core('configmaps'),
      { metadata: { generateName: 'o-' } },
      { query: { fieldManager } },
    );
    expect(status).toBe(422);
    expect(body.message).toContain('fieldManager');
  });
});
