import { exceptions } from './exceptions.ts';
import { causesOf } from './support/document.ts';
import { useServer } from './support/server.ts';

const server = useServer();

describe('status', () => {
  it('is written by its own path, which writes nothing else', async () => {
    const { body: made } = await server().post(server().widgets(), server().widget('s1'));
    const sent = {
      ...made,
      metadata: { ...made.metadata, labels: { a: 'b' } },
      spec: { color: 'red' },
      status: { ready: true },
    };
    const { status, body } = await server().put(server().widgets('s1', 'status'), sent);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      spec: { color: 'green' },
      status: { ready: true },
      metadata: { generation: 1 },
    });
    expect(body.metadata).not.toHaveProperty('labels');
    expect(body.metadata.resourceVersion).not.toBe(made.metadata.resourceVersion);
  });

  it('is left alone by the path of the object', async () => {
    await server().post(server().widgets(), server().widget('s2'));
    const { body: reported } = await server().mergePatch(server().widgets('s2', 'status'), {
      status: { ready: true },
    });
    const { body } = await server().put(server().widgets('s2'), {
      ...reported,
      spec: { ...reported.spec, size: 8 },
      status: { ready: false },
    });
    expect(body).toMatchObject({
      spec: { size: 8 },
      status: { ready: true },
      metadata: { generation: 2 },
    });
  });

  it('is read by both paths', async () => {
    await server().post(server().widgets(), server().widget('s3'));
    const { body } = await server().get(server().widgets('s3', 'status'));
    expect(body).toMatchObject({
      kind: 'Widget',
      metadata: { name: 's3' },
      spec: { color: 'green' },
    });
  });

  it('is checked by the schema', async () => {
    await server().post(server().widgets(), server().widget('s4'));
    const { status, body } = await server().mergePatch(server().widgets('s4', 'status'), {
      status: { phase: 'Middle' },
    });
    expect(status).toBe(422);
    expect(causesOf(body)).toContain(
      'status.phase: FieldValueNotSupported: Unsupported value: "Middle": supported values: "New", "Old"',
    );
  });

  it('conflicts like the object', async () => {
    const { body: made } = await server().post(server().widgets(), server().widget('s5'));
    await server().mergePatch(server().widgets('s5'), { spec: { size: 6 } });
    const { status } = await server().put(server().widgets('s5', 'status'), {
      ...made,
      status: { ready: true },
    });
    expect(status).toBe(409);
  });

  it('is replaced as a whole by a patch that demands the version, and conflicts with another one', async () => {
    const metadata = { name: 's9', annotations: { kept: 'yes' } };
    const { body: made } = await server().post(server().widgets(), {
      ...server().widget('s9'),
      metadata,
    });
    await server().mergePatch(server().widgets('s9', 'status'), {
      status: { ready: true, replicas: 2 },
    });
    const patch = (version: string) => [
      { op: 'replace', path: '/metadata/resourceVersion', value: version },
      { op: 'add', path: '/status', value: { ready: false } },
    ];
    const { body: stored } = await server().get(server().widgets('s9'));
    const { status, body } = await server().jsonPatch(
      server().widgets('s9', 'status'),
      patch(stored.metadata.resourceVersion),
    );
    expect(status).toBe(200);
    expect(body).toMatchObject({
      spec: made.spec,
      status: { ready: false },
      metadata: { generation: 1, annotations: { kept: 'yes' } },
    });
    expect(body.status).toEqual({ ready: false });
    const late = await server().jsonPatch(
      server().widgets('s9', 'status'),
      patch(stored.metadata.resourceVersion),
    );
    expect([late.status, late.body.reason]).toEqual([409, 'Conflict']);
  });

  it('keeps what a patch of single fields does not name', async () => {
    await server().post(server().widgets(), server().widget('s10'));
    const { body: stored } = await server().mergePatch(server().widgets('s10', 'status'), {
      status: { ready: true, replicas: 2, phase: 'New' },
    });
    const patch = [
      { op: 'replace', path: '/metadata/resourceVersion', value: stored.metadata.resourceVersion },
      { op: 'remove', path: '/status/phase' },
      { op: 'add', path: '/status/ready', value: false },
    ];
    const { status, body } = await server().jsonPatch(server().widgets('s10', 'status'), patch);
    expect([status, body.status]).toEqual([200, { ready: false, replicas: 2 }]);
  });

  it('goes when it is patched away', async () => {
    await server().post(server().widgets(), server().widget('s6'));
    await server().mergePatch(server().widgets('s6', 'status'), {
      status: { ready: true, replicas: 2 },
    });
    const { body } = await server().mergePatch(server().widgets('s6', 'status'), {
      status: { ready: null },
    });
    expect(body.status).toEqual({ replicas: 2 });
    const { body: bare } = await server().mergePatch(server().widgets('s6', 'status'), {
      status: null,
    });
    expect(bare).not.toHaveProperty('status');
  });

  exceptions.managedFields.it('is owned by whom it was written by', async () => {
    await server().post(server().widgets(), server().widget('s7'));
    const { body } = await server().mergePatch(
      server().widgets('s7', 'status'),
      { status: { ready: true } },
      { query: { fieldManager: 'reporter' } },
    );
    expect(body.metadata.managedFields).toContainEqual(
      expect.objectContaining({
        manager: 'reporter',
        operation: 'Update',
        subresource: 'status',
        fieldsV1: { 'f:status': { '.': {}, 'f:ready': {} } },
      }),
    );
  });

  it('may not be created or deleted by itself', async () => {
    await server().post(server().widgets(), server().widget('s8'));
    expect((await server().delete(server().widgets('s8', 'status'))).status).toBe(405);
    expect(
      (await server().post(server().widgets('s8', 'status'), server().widget('s8'))).status,
    ).toBe(405);
  });

  it('of a built-in kind works the same', async () => {
    await server().post(server().core('persistentvolumeclaims'), {
      metadata: { name: 's9' },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
      status: { phase: 'Bound' },
    });
    const { body: before } = await server().get(server().core('persistentvolumeclaims', 's9'));
    expect(before.status).toEqual({ phase: 'Pending' });
    const { body } = await server().mergePatch(
      server().core('persistentvolumeclaims', 's9', 'status'),
      { status: { phase: 'Lost' } },
    );
    expect(body.status).toEqual({ phase: 'Lost' });
  });
});

describe('scale', () => {
  it('shows the replicas and the selector', async () => {
    const { body: made } = await server().post(
      server().widgets(),
      server().widget('c1', { replicas: 3 }, { labels: { a: 'b' } }),
    );
    const before = await server().get(server().widgets('c1', 'scale'));
    expect(before.body).toEqual({
      kind: 'Scale',
      apiVersion: 'autoscaling/v1',
      metadata: {
        name: 'c1',
        namespace: server().namespace,
        uid: made.metadata.uid,
        resourceVersion: made.metadata.resourceVersion,
        creationTimestamp: made.metadata.creationTimestamp,
      },
      spec: { replicas: 3 },
      status: { replicas: 0 },
    });
    await server().mergePatch(server().widgets('c1', 'status'), {
      status: { replicas: 2, selector: 'app=c1' },
    });
    const after = await server().get(server().widgets('c1', 'scale'));
    expect(after.body.status).toEqual({ replicas: 2, selector: 'app=c1' });
  });

  it('sets the replicas and nothing else', async () => {
    await server().post(server().widgets(), server().widget('c2'));
    const { body: scale } = await server().get(server().widgets('c2', 'scale'));
    const { status, body } = await server().put(server().widgets('c2', 'scale'), {
      ...scale,
      spec: { replicas: 4 },
    });
    expect([status, body.kind, body.spec]).toEqual([200, 'Scale', { replicas: 4 }]);
    const { body: widget } = await server().get(server().widgets('c2'));
    expect(widget).toMatchObject({
      metadata: { generation: 2 },
      spec: { replicas: 4, color: 'green' },
    });
  });

  it('is patched', async () => {
    await server().post(server().widgets(), server().widget('c3'));
    const { status, body } = await server().mergePatch(server().widgets('c3', 'scale'), {
      spec: { replicas: 6 },
    });
    expect([status, body.spec]).toEqual([200, { replicas: 6 }]);
  });

  it('refuses less than nothing', async () => {
    await server().post(server().widgets(), server().widget('c4'));
    const { status, body } = await server().mergePatch(server().widgets('c4', 'scale'), {
      spec: { replicas: -1 },
    });
    expect([status, body.reason]).toEqual([422, 'Invalid']);
    expect(body.message).toContain('Invalid value: -1: should be a non-negative integer');
  });

  it('refuses what the schema refuses', async () => {
    await server().post(server().product('sandboxes'), {
      apiVersion: 'conversation-operator.dev/v1alpha1',
      kind: 'Sandbox',
      metadata: { name: 'c5' },
      spec: { owner: 'alice' },
    });
    const { status, body } = await server().mergePatch(
      server().product('sandboxes', 'c5', 'scale'),
      { spec: { replicas: 2 } },
    );
    expect([status, body.reason]).toEqual([422, 'Invalid']);
    expect(body.message).toContain('spec.replicas in body should be less than or equal to 1');
  });

  it('conflicts like the object', async () => {
    await server().post(server().widgets(), server().widget('c6'));
    const { body: scale } = await server().get(server().widgets('c6', 'scale'));
    await server().mergePatch(server().widgets('c6'), { spec: { size: 6 } });
    const { status } = await server().put(server().widgets('c6', 'scale'), {
      ...scale,
      spec: { replicas: 4 },
    });
    expect(status).toBe(409);
  });

  it('is not found with its object', async () => {
    const { status } = await server().get(server().widgets('absent', 'scale'));
    expect(status).toBe(404);
  });
});
