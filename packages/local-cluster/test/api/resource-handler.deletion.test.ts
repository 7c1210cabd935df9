/* oxlint-disable
   @typescript-eslint/no-unsafe-assignment,
   @typescript-eslint/no-unsafe-member-access,
   @typescript-eslint/no-unsafe-call
   -- answers are JSON of every shape; a wrong guess fails the test */
import { aPod, coreInDefault, Plane, type Body } from '../../../../test/support/plane.ts';

let plane: Plane;
beforeEach(async () => {
  plane = await new Plane().start();
});
afterEach(() => plane.close());

const maps = coreInDefault('configmaps');
const map = (name: string) => coreInDefault('configmaps', name);
const pod = coreInDefault('pods', 'p');
const aMap = async (name: string, metadata: object = {}): Promise<Body> =>
  (await plane.post(maps, { metadata: { name, ...metadata } })).body;
const ownedBy = (...owners: readonly Body[]) => ({
  ownerReferences: owners.map(({ metadata }: Body) => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    name: metadata.name as string,
    uid: metadata.uid as string,
  })),
});
const namesLeft = async (): Promise<string[]> => {
  await plane.clock.advance(10);
  return (await plane.get(maps)).body.items.map(
    ({ metadata }: Body) => metadata.name as string,
  ) as string[];
};

describe('a deletion', () => {
  it('is answered with what is gone', async () => {
    const { metadata } = await aMap('a');
    expect((await plane.remove(map('a'))).body).toMatchObject({
      status: 'Success',
      details: { name: 'a', kind: 'configmaps', uid: metadata.uid as string },
    });
    expect((await plane.remove(map('a'))).status).toBe(404);
  });

  it('keeps to its preconditions', async () => {
    const { metadata } = await aMap('a');
    expect((await plane.remove(map('a'), { preconditions: { uid: 'other' } })).status).toBe(409);
    expect((await plane.remove(map('a'), { preconditions: { resourceVersion: '1' } })).status).toBe(
      409,
    );
    expect(
      (await plane.remove(map('a'), { preconditions: { uid: metadata.uid as string } })).status,
    ).toBe(200);
  });

  it('waits for finalizers, and takes no new ones', async () => {
    await aMap('a', { finalizers: ['example.com/x'] });
    const { body } = await plane.remove(map('a'));
    expect(body.metadata.deletionTimestamp).toBe('2030-01-01T00:00:00Z');
    expect(
      (
        await plane.merge(map('a'), {
          metadata: { finalizers: ['example.com/x', 'example.com/y'] },
        })
      ).status,
    ).toBe(422);
    await plane.merge(map('a'), { metadata: { finalizers: null } });
    expect((await plane.get(map('a'))).status).toBe(404);
  });

  it('dry deletes nothing', async () => {
    await aMap('a');
    expect((await plane.remove(map('a'), { dryRun: ['All'] })).status).toBe(200);
    expect(await namesLeft()).toEqual(['a']);
  });
});

describe('a pod', () => {
  it('that no node has taken goes at once', async () => {
    await plane.post(coreInDefault('pods'), aPod('p'));
    expect((await plane.remove(pod)).body.kind).toBe('Pod');
    expect((await plane.get(pod)).status).toBe(404);
  });

  it('on a node waits for it, and its time can only become shorter', async () => {
    await plane.post(coreInDefault('pods'), aPod('p'));
    expect(
      (await plane.post(`${pod}/binding`, { target: { kind: 'Node', name: 'n' } })).status,
    ).toBe(201);
    expect(
      (await plane.post(`${pod}/binding`, { target: { kind: 'Node', name: 'n' } })).status,
    ).toBe(409);
    expect((await plane.remove(pod)).body.metadata).toMatchObject({
      deletionGracePeriodSeconds: 30,
      deletionTimestamp: '2030-01-01T00:00:30Z',
    });
    expect(
      (await plane.remove(pod, { gracePeriodSeconds: 60 })).body.metadata
        .deletionGracePeriodSeconds,
    ).toBe(30);
    expect(
      (await plane.remove(pod, { gracePeriodSeconds: 5 })).body.metadata.deletionGracePeriodSeconds,
    ).toBe(5);
    await plane.remove(pod, { gracePeriodSeconds: 0 });
    expect((await plane.get(pod)).status).toBe(404);
  });
});

describe('the garbage collector', () => {
  it('deletes what has lost its owner, and what that owned', async () => {
    const owner = await aMap('owner');
    const child = await aMap('child', ownedBy(owner));
    await aMap('grandchild', ownedBy(child));
    await aMap('free');
    await plane.remove(map('owner'));
    expect(await namesLeft()).toEqual(['free']);
  });

  it('leaves what has another owner, and forgets the one that is gone', async () => {
    const one = await aMap('one');
    const two = await aMap('two');
    await aMap('child', ownedBy(one, two));
    await plane.remove(map('one'));
    expect(await namesLeft()).toEqual(['child', 'two']);
    expect((await plane.get(map('child'))).body.metadata.ownerReferences).toMatchObject([
      { name: 'two' },
    ]);
    await plane.remove(map('two'));
    expect(await namesLeft()).toEqual([]);
  });

  it('checks the uid, not the name', async () => {
    const owner = await aMap('owner');
    await aMap('child', {
      ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid: 'another' }],
    });
    expect(owner.metadata.uid).not.toBe('another');
    expect(await namesLeft()).toEqual(['owner']);
  });

  it('keeps what is owned by a kind it does not know', async () => {
    await aMap('child', {
      ownerReferences: [{ apiVersion: 'apps/v1', kind: 'Deployment', name: 'x', uid: 'y' }],
    });
    expect(await namesLeft()).toEqual(['child']);
  });
});

describe('a namespace', () => {
  const namespace = '/api/v1/namespaces/n';
  beforeEach(async () => {
    await plane.post('/api/v1/namespaces', { metadata: { name: 'n' } });
  });

  it('takes its contents with it', async () => {
    await plane.post(`${namespace}/configmaps`, {
      metadata: { name: 'a', finalizers: ['example.com/x'] },
    });
    await plane.post(`${namespace}/configmaps`, { metadata: { name: 'b' } });
    expect((await plane.remove(namespace)).body.status.phase).toBe('Terminating');
    await plane.clock.advance(10);
    expect((await plane.get(`${namespace}/configmaps`)).body.items).toHaveLength(1);
    const refused = await plane.post(`${namespace}/configmaps`, { metadata: { name: 'c' } });
    expect([refused.status, refused.body.details.causes[0].reason]).toEqual([
      403,
      'NamespaceTerminating',
    ]);
    await plane.merge(`${namespace}/configmaps/a`, { metadata: { finalizers: null } });
    await plane.clock.advance(10);
    expect((await plane.get(namespace)).status).toBe(404);
  });

  it('that everything begins in stays', async () => {
    expect((await plane.remove('/api/v1/namespaces/default')).body.message).toBe(
      'namespaces "default" is forbidden: this namespace may not be deleted',
    );
  });

  it('without contents goes too', async () => {
    await plane.remove(namespace);
    await plane.clock.advance(10);
    expect((await plane.get(namespace)).status).toBe(404);
  });
});
