import type { StatusUpdate } from '@conversation-operator/kube/client';
import {
  ownerReferenceTo,
  type KubeObject,
  type ResourceDefinition,
} from '@conversation-operator/kube/object';
import { sandboxes } from '../../../../src/resources/sandbox.ts';
import { AdmissionScene } from '../../../support/admission-scene.ts';
import {
  aConversation,
  aQuota,
  aSandbox,
  admitted,
  condition,
  noon,
} from '../../../support/builders.ts';

let scene: AdmissionScene;
beforeEach(() => {
  scene = new AdmissionScene();
});
afterEach(() => scene.stop());

it('does not count a sandbox whose deletion was seen before the answer to its admission came', async () => {
  const { client, admission, clock } = scene;
  await scene.addQuota(aQuota('default', { limit: 1 }));
  const updateStatus = client.updateStatus.bind(client);
  client.updateStatus = async <T extends KubeObject>(
    resource: ResourceDefinition<T>,
    object: StatusUpdate<T>,
  ) => {
    const deleted = await scene.stored('sbx-1');
    const answer = await updateStatus(resource, object);
    await client.delete(sandboxes, 'default', 'sbx-1');
    admission.forget(deleted);
    return answer;
  };
  await scene.addSandbox('sbx-1');
  await clock.advance(0);
  client.updateStatus = updateStatus;
  await clock.advance(0);
  expect(scene.takenBy('alice')).toBe(0);
  await scene.addSandbox('sbx-2');
  await clock.advance(0);
  expect((await scene.stored('sbx-2')).status?.conditions).toMatchObject([
    { type: 'Admitted', status: 'True' },
    { type: 'Paused', status: 'False' },
  ]);
});

describe('while writes are in flight', () => {
  /** Names of the sandboxes whose writes wait for an answer, in the order of the writes. */
  const sent: string[] = [];
  let answer: () => void;
  beforeEach(() => {
    sent.length = 0;
    const answered = new Promise<void>((resolve) => (answer = resolve));
    const { client } = scene;
    const updateStatus = client.updateStatus.bind(client);
    client.updateStatus = async <T extends KubeObject>(
      resource: ResourceDefinition<T>,
      object: StatusUpdate<T>,
    ) => {
      if (resource.plural !== sandboxes.plural) return updateStatus(resource, object);
      sent.push(object.metadata.name);
      await answered;
      return updateStatus(resource, object);
    };
  });
  const names = (count: number) => Array.from({ length: count }, (_, index) => `sbx-${index + 10}`);

  it('admits further sandboxes in the order of their requests', async () => {
    await Promise.all(names(20).map((name) => scene.addSandbox(name)));
    await scene.clock.advance(0);
    expect(sent).toEqual(names(20));
    answer();
  });

  it('admits at most 32 sandboxes', async () => {
    await Promise.all(names(40).map((name) => scene.addSandbox(name)));
    await scene.clock.advance(0);
    expect(sent).toHaveLength(32);
    answer();
    await scene.clock.advance(0);
    expect(sent).toHaveLength(40);
    expect(scene.takenBy('alice')).toBe(40);
  });

  it('counts a sandbox of which a newer version is seen meanwhile', async () => {
    await scene.addQuota(aQuota('default', { limit: 1 }));
    await scene.addSandbox('sbx-10');
    await scene.clock.advance(0);
    const labelled = { metadata: { labels: { a: 'b' } } };
    scene.show(await scene.client.mergePatch(sandboxes, 'default', 'sbx-10', labelled));
    await scene.addSandbox('sbx-11');
    await scene.clock.advance(0);
    expect(scene.takenBy('alice')).toBe(1);
    expect(sent.filter((name) => name === 'sbx-10')).toHaveLength(1);
    answer();
  });

  it('counts a sandbox whose admission is in flight', async () => {
    await scene.addQuota(aQuota('default', { limit: 3 }));
    await Promise.all(names(5).map((name) => scene.addSandbox(name)));
    await scene.clock.advance(0);
    expect(sent.slice(0, 3)).toEqual(names(3));
    expect(scene.takenBy('alice')).toBe(3);
    answer();
    await scene.clock.advance(0);
    expect(scene.takenBy('alice')).toBe(3);
  });
});

it('reconciles the quota that another one overrules', async () => {
  await scene.addQuota(aQuota('loose', { limit: 5 }));
  await scene.addQuota(aQuota('strict', { limit: 1 }));
  scene.quotaStatuses.length = 0;
  await scene.addSandbox('sbx-1');
  expect(new Set(scene.quotaStatuses)).toEqual(new Set(['loose', 'strict']));
});

it('reads at its own pace what no cache has shown yet', async () => {
  const { client, clock } = scene;
  const { metadata: _metadata, ...sandbox } = aSandbox();
  await client.create(sandboxes, { ...sandbox, metadata: { name: 'sbx-1', namespace: 'default' } });
  const get = client.get.bind(client);
  let reads = 0;
  client.get = <T extends KubeObject>(
    resource: ResourceDefinition<T>,
    namespace: string,
    name: string,
  ) => {
    // A loop without an end would never let go of the test.
    if (++reads > 100) throw new Error('read again and again');
    return get(resource, namespace, name);
  };
  (await scene.reads.seed())();
  await clock.advance(10_000);
  expect(reads).toBeGreaterThan(10);
  expect(reads).toBeLessThan(25);
});

it('reads what its list shows in another version than the cache', async () => {
  const { client, stores } = scene;
  for (const name of ['same', 'changed']) {
    client.put(sandboxes, aSandbox({ name }));
    stores.sandboxes.set(await scene.stored(name));
  }
  const status = { replicas: 1 };
  await client.mergePatch(sandboxes, 'default', 'changed', { status }, { subresource: 'status' });
  const read: string[] = [];
  client.fault = ({ verb, name = '' }) => {
    if (verb === 'get') read.push(name);
    return undefined;
  };
  const fill = await scene.reads.seed();
  expect(read).toEqual(['changed']);
  fill();
  expect(scene.takenBy('alice')).toBe(1);
});

it('takes a start for over that has failed before it stored which sandbox it has joined', () => {
  const spec = { sandboxName: 'sbx-1' };
  const joining = aConversation({
    spec,
    status: { start: { status: 'WORKING', transitions: [] } },
  });
  const made = aSandbox({
    status: {
      replicas: 1,
      activeSinceTime: noon,
      lastContainerID: 'c',
      agentEpoch: 1,
      conditions: [admitted, condition('Ready', 'True')],
    },
  });
  const joined = {
    ...made,
    metadata: {
      ...made.metadata,
      ownerReferences: [ownerReferenceTo(joining, { controller: false })],
    },
  };
  const state = () => scene.admission.snapshot('default').slot(joined.metadata.uid)?.state;
  scene.showConversation(joining);
  scene.show(joined);
  expect(state()).toBe('starting');
  scene.showConversation(
    aConversation({ spec, status: { start: { status: 'ERROR', transitions: [] } } }),
  );
  expect(state()).toBe('running');
});
