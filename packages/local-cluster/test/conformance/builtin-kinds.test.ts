import { exceptions } from './exceptions.ts';
import { causesOf } from './support/document.ts';
import { useServer } from './support/server.ts';

const server = useServer();

describe('leases', () => {
  const lease = (name: string, spec: object) => ({
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name },
    spec,
  });

  it('keep microseconds', async () => {
    const spec = {
      holderIdentity: 'a',
      leaseDurationSeconds: 15,
      acquireTime: '2026-01-01T00:00:00.123456Z',
      renewTime: '2026-01-01T00:00:00.000000Z',
      leaseTransitions: 1,
    };
    const { status, body } = await server().post(server().leases(), lease('l1', spec));
    expect([status, body.spec]).toEqual([201, spec]);
    expect(body.metadata).not.toHaveProperty('generation');
  });

  it('change hands only at the version read', async () => {
    const { body: made } = await server().post(
      server().leases(),
      lease('l2', { holderIdentity: 'a' }),
    );
    const won = await server().put(server().leases('l2'), {
      ...made,
      spec: { holderIdentity: 'b' },
    });
    const lost = await server().put(server().leases('l2'), {
      ...made,
      spec: { holderIdentity: 'c' },
    });
    expect([won.status, lost.status]).toEqual([200, 409]);
    expect((await server().get(server().leases('l2'))).body.spec).toEqual({ holderIdentity: 'b' });
  });

  it('refuse a time that is none', async () => {
    const { status } = await server().post(server().leases(), lease('l4', { renewTime: 'now' }));
    expect(status).toBe(400);
  });
});

describe('events', () => {
  const about = () => ({
    kind: 'Pod',
    namespace: server().namespace,
    name: 'p',
    apiVersion: 'v1',
    uid: 'u1',
  });

  it('are recorded, counted and selected', async () => {
    const { status } = await server().post(server().core('events'), {
      metadata: { name: 'e1' },
      involvedObject: about(),
      reason: 'Started',
      message: 'm',
      type: 'Normal',
      count: 1,
      firstTimestamp: '2026-01-01T00:00:00Z',
      lastTimestamp: '2026-01-01T00:00:00Z',
      source: { component: 'c' },
    });
    expect(status).toBe(201);
    const { body } = await server().mergePatch(server().core('events', 'e1'), {
      count: 2,
      lastTimestamp: '2026-01-01T00:01:00Z',
    });
    expect(body).toMatchObject({ count: 2 });
    const { body: found } = await server().get(server().core('events'), {
      query: { fieldSelector: 'involvedObject.name=p,reason=Started,type=Normal' },
    });
    expect(found.items).toHaveLength(1);
    const { body: none } = await server().get(server().core('events'), {
      query: { fieldSelector: 'involvedObject.uid=u2' },
    });
    expect(none.items).toHaveLength(0);
  });
});

describe('claims', () => {
  const claim = (name: string, spec: object = {}) => ({
    metadata: { name },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } }, ...spec },
  });
  const at = (name: string) => server().core('persistentvolumeclaims', name);

  exceptions.claimProtection.it('get the finalizer that protects them', async () => {
    const { body } = await server().post(
      server().core('persistentvolumeclaims'),
      claim('c0', { storageClassName: 'none' }),
    );
    expect(body.metadata.finalizers).toEqual(['kubernetes.io/pvc-protection']);
  });

  it('get their defaults', async () => {
    const { status, body } = await server().post(
      server().core('persistentvolumeclaims'),
      claim('c1', { storageClassName: 'none' }),
    );
    expect(status).toBe(201);
    expect(body).toMatchObject({
      spec: {
        volumeMode: 'Filesystem',
        storageClassName: 'none',
        resources: { requests: { storage: '1Gi' } },
      },
      status: { phase: 'Pending' },
    });
  });

  it.each<[string, object, string]>([
    [
      'an access mode',
      { accessModes: [] },
      'spec.accessModes: FieldValueRequired: Required value: at least 1 access mode is required',
    ],
    ['a size', { resources: {} }, 'spec.resources[storage]: FieldValueRequired: Required value'],
    [
      'a size above zero',
      { resources: { requests: { storage: '0' } } },
      'spec.resources[storage]: FieldValueInvalid: Invalid value: "0": must be greater than zero',
    ],
    [
      'an access mode that exists',
      { accessModes: ['ReadSometimes'] },
      'spec.accessModes: FieldValueNotSupported: Unsupported value: "ReadSometimes": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"',
    ],
  ])('need %s', async (_, spec, cause) => {
    const { status, body } = await server().post(
      server().core('persistentvolumeclaims'),
      claim('c2', spec),
    );
    expect(status).toBe(422);
    expect(causesOf(body)).toContain(cause);
  });

  it('do not change their spec', async () => {
    await server().post(
      server().core('persistentvolumeclaims'),
      claim('c3', { storageClassName: 'none' }),
    );
    const { status, body } = await server().mergePatch(at('c3'), {
      spec: { accessModes: ['ReadWriteMany'] },
    });
    expect(status).toBe(422);
    expect(body.message).toContain(
      'spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims',
    );
  });
});

describe('secrets', () => {
  it('take plain text, and give base64', async () => {
    const { body } = await server().post(server().core('secrets'), {
      metadata: { name: 's1' },
      stringData: { a: 'b' },
      data: { c: 'ZA==' },
    });
    expect(body).toMatchObject({ type: 'Opaque', data: { a: 'Yg==', c: 'ZA==' } });
    expect(body).not.toHaveProperty('stringData');
  });

  it('refuse what is no base64', async () => {
    const { status, body } = await server().post(server().core('secrets'), {
      metadata: { name: 's2' },
      data: { a: '***' },
    });
    expect([status, body.reason]).toEqual([400, 'BadRequest']);
    expect(body.message).toContain('illegal base64 data');
  });

  it('keep their type', async () => {
    await server().post(server().core('secrets'), { metadata: { name: 's3' } });
    const { status, body } = await server().mergePatch(server().core('secrets', 's3'), {
      type: 'other',
    });
    expect([status, causesOf(body)]).toEqual([
      422,
      ['type: FieldValueInvalid: Invalid value: "other": field is immutable'],
    ]);
  });
});
