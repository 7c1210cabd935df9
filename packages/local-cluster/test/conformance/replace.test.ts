import { causesOf } from './support/document.ts';
import { useServer } from './support/server.ts';

const server = useServer();
const map = (name: string, data: object = { a: '1' }, metadata: object = {}) => ({
  metadata: { name, ...metadata },
  data,
});

describe('replacing', () => {
  it('changes the object, its version and, for a new spec, its generation', async () => {
    const { body: made } = await server().post(server().widgets(), server().widget('grows'));
    const { status, body } = await server().put(server().widgets('grows'), {
      ...made,
      spec: { ...made.spec, size: 7 },
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      metadata: { generation: 2, uid: made.metadata.uid },
      spec: { size: 7 },
    });
    expect(Number(body.metadata.resourceVersion)).toBeGreaterThan(
      Number(made.metadata.resourceVersion),
    );
  });

  it('counts no generation for metadata', async () => {
    const { body: made } = await server().post(server().widgets(), server().widget('labelled'));
    const { body } = await server().put(server().widgets('labelled'), {
      ...made,
      metadata: { ...made.metadata, labels: { a: 'b' } },
    });
    expect(body.metadata).toMatchObject({ generation: 1, labels: { a: 'b' } });
    expect(body.metadata.resourceVersion).not.toBe(made.metadata.resourceVersion);
  });

  it('leaves the version as it is when nothing changes', async () => {
    const { body: made } = await server().post(server().widgets(), server().widget('same'));
    const { status, body } = await server().put(server().widgets('same'), made);
    expect([status, body.metadata.resourceVersion]).toEqual([200, made.metadata.resourceVersion]);
  });

  it('refuses an old version', async () => {
    const { body: made } = await server().post(server().core('configmaps'), map('contended'));
    await server().put(server().core('configmaps', 'contended'), { ...made, data: { a: '2' } });
    const { status, body } = await server().put(server().core('configmaps', 'contended'), {
      ...made,
      data: { a: '3' },
    });
    expect(status).toBe(409);
    expect(body).toMatchObject({
      reason: 'Conflict',
      message:
        'Operation cannot be fulfilled on configmaps "contended": the object has been modified; please apply your changes to the latest version and try again',
      details: { name: 'contended', kind: 'configmaps' },
    });
  });

  it('does not ask a built-in kind for the version', async () => {
    await server().post(server().core('configmaps'), map('careless'));
    const { status, body } = await server().put(
      server().core('configmaps', 'careless'),
      map('careless', { b: '2' }),
    );
    expect(status).toBe(200);
    expect(body).toMatchObject({ data: { b: '2' } });
  });

  it('asks a custom kind for the version', async () => {
    await server().post(server().widgets(), server().widget('careful'));
    const { status, body } = await server().put(
      server().widgets('careful'),
      server().widget('careful'),
    );
    expect(status).toBe(422);
    expect(causesOf(body)).toEqual([
      'metadata.resourceVersion: FieldValueInvalid: Invalid value: 0: must be specified for an update',
    ]);
  });

  it('refuses another uid', async () => {
    const { body: made } = await server().post(server().core('configmaps'), map('reborn'));
    const other = {
      ...made,
      metadata: { ...made.metadata, uid: '11111111-1111-4111-8111-111111111111' },
    };
    const { status, body } = await server().put(server().core('configmaps', 'reborn'), other);
    expect(status).toBe(409);
    expect(body.message).toMatch(/^Operation cannot be fulfilled on configmaps "reborn": /);
    expect(body.message).toContain(
      `Precondition failed: UID in precondition: 11111111-1111-4111-8111-111111111111, UID in object meta: ${made.metadata.uid}`,
    );
  });

  it('refuses another name than that of the path', async () => {
    const { body: made } = await server().post(server().core('configmaps'), map('named'));
    const other = { ...made, metadata: { ...made.metadata, name: 'renamed' } };
    const { status, body } = await server().put(server().core('configmaps', 'named'), other);
    expect([status, body.message]).toEqual([
      400,
      'the name of the object (renamed) does not match the name on the URL (named)',
    ]);
  });

  it('refuses another namespace than that of the path', async () => {
    const { body: made } = await server().post(server().core('configmaps'), map('placed'));
    const other = { ...made, metadata: { ...made.metadata, namespace: 'elsewhere' } };
    const { status, body } = await server().put(server().core('configmaps', 'placed'), other);
    expect([status, body.message]).toEqual([
      400,
      'the namespace of the provided object does not match the namespace sent on the request',
    ]);
  });

  it('creates no custom object', async () => {
    const { status } = await server().put(
      server().widgets('absent'),
      server().widget('absent', {}, { resourceVersion: '1' }),
    );
    expect(status).toBe(404);
  });

  it('keeps what only a server sets', async () => {
    const { body: made } = await server().post(server().widgets(), server().widget('stubborn'));
    const metadata = {
      ...made.metadata,
      generation: 99,
      creationTimestamp: '2001-01-01T00:00:00Z',
      labels: { touched: 'yes' },
    };
    const { body } = await server().put(server().widgets('stubborn'), { ...made, metadata });
    expect(body.metadata).toMatchObject({
      generation: 1,
      creationTimestamp: made.metadata.creationTimestamp,
    });
  });

  it('takes away what is not sent any more', async () => {
    const { body: made } = await server().post(
      server().core('configmaps'),
      map('shrinks', { a: '1', b: '2' }, { labels: { x: 'y' } }),
    );
    const { resourceVersion } = made.metadata;
    const { body } = await server().put(
      server().core('configmaps', 'shrinks'),
      map('shrinks', { b: '2' }, { resourceVersion }),
    );
    expect(body).toMatchObject({ data: { b: '2' } });
    expect(body.metadata).not.toHaveProperty('labels');
  });
});
