import { eventually } from '../../../../test/support/eventually.ts';
import type { Document } from './support/document.ts';
import { patienceMs, useServer } from './support/server.ts';

const server = useServer();
const waiting = patienceMs + 15_000;

const configMap = async (name: string, metadata: object = {}): Promise<Document> =>
  (await server().post(server().core('configmaps'), { metadata: { name, ...metadata } })).body;
const at = (name: string) => server().core('configmaps', name);
const referenceTo = ({ metadata }: Document, more: object = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  name: metadata.name,
  uid: metadata.uid,
  ...more,
});
const ownedBy = (...owners: readonly object[]) => ({ ownerReferences: owners });
const isGone = (path: string) => async () => (await server().get(path)).status === 404;
const gone = (path: string) => eventually(`${path} is gone`, isGone(path), patienceMs);

describe('finalizers', () => {
  it('keep what is deleted until they are taken away', async () => {
    const { body: made } = await server().post(
      server().widgets(),
      server().widget('held', {}, { finalizers: ['example.com/a', 'example.com/b'] }),
    );
    const { status, body } = await server().delete(server().widgets('held'));
    expect(status).toBe(200);
    expect(body).toMatchObject({
      kind: 'Widget',
      metadata: {
        uid: made.metadata.uid,
        generation: 2,
        deletionGracePeriodSeconds: 0,
        deletionTimestamp: expect.stringMatching(/Z$/) as unknown,
        finalizers: ['example.com/a', 'example.com/b'],
      },
    });
    const one = await server().mergePatch(server().widgets('held'), {
      metadata: { finalizers: ['example.com/b'] },
    });
    expect(one.status).toBe(200);
    const none = await server().mergePatch(server().widgets('held'), {
      metadata: { finalizers: null },
    });
    expect(none.status).toBe(200);
    expect(none.body.metadata).not.toHaveProperty('finalizers');
    expect((await server().get(server().widgets('held'))).status).toBe(404);
  });

  it('leave the object as it is when it is deleted again', async () => {
    await server().post(
      server().widgets(),
      server().widget('again', {}, { finalizers: ['example.com/a'] }),
    );
    const { body: first } = await server().delete(server().widgets('again'));
    const { status, body: second } = await server().delete(server().widgets('again'));
    expect(status).toBe(200);
    expect(second.metadata.deletionTimestamp).toBe(first.metadata.deletionTimestamp);
    expect(second.metadata.resourceVersion).toBe(first.metadata.resourceVersion);
    await server().mergePatch(server().widgets('again'), { metadata: { finalizers: null } });
  });

  it('may not come when it is being deleted', async () => {
    await server().post(
      server().widgets(),
      server().widget('late', {}, { finalizers: ['example.com/a'] }),
    );
    await server().delete(server().widgets('late'));
    const { status, body } = await server().mergePatch(server().widgets('late'), {
      metadata: { finalizers: ['example.com/a', 'example.com/b'] },
    });
    expect(status).toBe(422);
    expect(body.message).toContain(
      'metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"example.com/b"}',
    );
    await server().mergePatch(server().widgets('late'), { metadata: { finalizers: null } });
  });

  it('let other changes through', async () => {
    await server().post(
      server().widgets(),
      server().widget('changing', {}, { finalizers: ['example.com/a'] }),
    );
    await server().delete(server().widgets('changing'));
    const { status, body } = await server().mergePatch(server().widgets('changing'), {
      spec: { size: 9 },
    });
    expect([status, body.spec['size'], body.metadata.generation]).toEqual([200, 9, 3]);
    await server().mergePatch(server().widgets('changing'), { metadata: { finalizers: null } });
  });

  it('keep the name taken', async () => {
    await configMap('occupied', { finalizers: ['example.com/a'] });
    await server().delete(at('occupied'));
    const { status, body } = await server().post(server().core('configmaps'), {
      metadata: { name: 'occupied' },
    });
    expect([status, body.reason]).toEqual([409, 'AlreadyExists']);
    expect(body.message).toBe('object is being deleted: configmaps "occupied" already exists');
    await server().mergePatch(at('occupied'), { metadata: { finalizers: null } });
  });

  it('can not be undone', async () => {
    await configMap('doomed', { finalizers: ['example.com/a'] });
    const { body: deleting } = await server().delete(at('doomed'));
    const { body } = await server().mergePatch(at('doomed'), {
      metadata: { deletionTimestamp: null },
    });
    expect(body.metadata.deletionTimestamp).toBe(deleting.metadata.deletionTimestamp);
    await server().mergePatch(at('doomed'), { metadata: { finalizers: null } });
  });
});

describe('owners', () => {
  it(
    'take what they own with them',
    async () => {
      const owner = await configMap('bg-owner');
      await configMap('bg-child', ownedBy(referenceTo(owner)));
      const { body } = await server().delete(at('bg-owner'), { propagationPolicy: 'Background' });
      expect(body).toMatchObject({ kind: 'Status', status: 'Success' });
      expect(await isGone(at('bg-owner'))()).toBe(true);
      await gone(at('bg-child'));
    },
    waiting,
  );

  it(
    'do so by default',
    async () => {
      const owner = await configMap('df-owner');
      await configMap('df-child', ownedBy(referenceTo(owner)));
      await server().delete(at('df-owner'));
      await gone(at('df-child'));
    },
    waiting,
  );

  it(
    'go all before what several own',
    async () => {
      const one = await configMap('two-a');
      const other = await configMap('two-b');
      await configMap('two-child', ownedBy(referenceTo(one), referenceTo(other)));
      await server().delete(at('two-a'));
      await eventually(
        'one reference is left',
        async () => {
          const { body } = await server().get(at('two-child'));
          return (
            (body.metadata as unknown as { ownerReferences: readonly unknown[] }).ownerReferences
              .length === 1
          );
        },
        patienceMs,
      );
      await server().delete(at('two-b'));
      await gone(at('two-child'));
    },
    waiting,
  );

  it(
    'go down generation by generation',
    async () => {
      const grandparent = await configMap('gen-1');
      const parent = await configMap('gen-2', ownedBy(referenceTo(grandparent)));
      await configMap('gen-3', ownedBy(referenceTo(parent)));
      await server().delete(at('gen-1'));
      await gone(at('gen-3'));
    },
    waiting,
  );

  it(
    'that do not exist own nothing',
    async () => {
      const owner = await configMap('ghost');
      await server().delete(at('ghost'));
      await configMap('haunted', ownedBy(referenceTo(owner)));
      await gone(at('haunted'));
    },
    waiting,
  );

  it(
    'are known by their uid, not by their name',
    async () => {
      const first = await configMap('reborn');
      await server().delete(at('reborn'));
      await configMap('reborn');
      await configMap('stale', ownedBy(referenceTo(first)));
      await gone(at('stale'));
      expect((await server().get(at('reborn'))).status).toBe(200);
    },
    waiting,
  );

  it(
    'may be of other kinds',
    async () => {
      const { body: owner } = await server().post(server().product('sandboxes'), {
        apiVersion: 'conversation-operator.dev/v1alpha1',
        kind: 'Sandbox',
        metadata: { name: 'owner' },
        spec: { owner: 'alice' },
      });
      const { apiVersion, kind, metadata } = owner;
      await configMap(
        'of-sandbox',
        ownedBy({
          apiVersion,
          kind,
          name: metadata.name,
          uid: metadata.uid,
          controller: true,
          blockOwnerDeletion: true,
        }),
      );
      await server().delete(server().product('sandboxes', 'owner'));
      await gone(at('of-sandbox'));
    },
    waiting,
  );
});

describe('a namespace', () => {
  it(
    'takes what is in it with it, and nothing comes in meanwhile',
    async () => {
      const name = `${server().namespace}-x`;
      const path = `/api/v1/namespaces/${name}`;
      const made = await server().post('/api/v1/namespaces', { metadata: { name } });
      expect(made.body).toMatchObject({
        metadata: { labels: { 'kubernetes.io/metadata.name': name } },
        spec: { finalizers: ['kubernetes'] },
        status: { phase: 'Active' },
      });
      await server().post(`${path}/configmaps`, {
        metadata: { name: 'inside', finalizers: ['example.com/wait'] },
      });
      const { status, body } = await server().delete(path);
      expect([status, body.kind, body.status]).toEqual([
        200,
        'Namespace',
        { phase: 'Terminating' },
      ]);
      const refused = await server().post(`${path}/configmaps`, { metadata: { name: 'late' } });
      expect([refused.status, refused.body.reason]).toEqual([403, 'Forbidden']);
      expect(refused.body).toMatchObject({
        message: `configmaps "late" is forbidden: unable to create new content in namespace ${name} because it is being terminated`,
        details: {
          causes: [
            {
              reason: 'NamespaceTerminating',
              message: `namespace ${name} is being terminated`,
              field: 'metadata.namespace',
            },
          ],
        },
      });
      await eventually(
        'what is inside is being deleted',
        async () => {
          const inside = await server().get(`${path}/configmaps/inside`);
          return inside.body.metadata.deletionTimestamp !== undefined;
        },
        patienceMs,
      );
      await server().mergePatch(`${path}/configmaps/inside`, { metadata: { finalizers: null } });
      await gone(path);
    },
    waiting,
  );

  it('of the server itself stays', async () => {
    const { status, body } = await server().delete('/api/v1/namespaces/kube-system');
    expect([status, body.message]).toEqual([
      403,
      'namespaces "kube-system" is forbidden: this namespace may not be deleted',
    ]);
  });
});
