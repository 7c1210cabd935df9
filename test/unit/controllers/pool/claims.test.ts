import { poolIndexers, sandboxIndexers } from '../../../../src/controllers/caches.ts';
import { WarmSandboxClaims } from '../../../../src/controllers/pool/claims.ts';
import { createMetrics } from '../../../../src/observability/metrics.ts';
import { pods, type PersistentVolumeClaim } from '@conversation-operator/kube/core';
import { ApiError, TransportError } from '@conversation-operator/kube/errors';
import { IndexedStore } from '@conversation-operator/kube/store';
import { silentLogger } from '@conversation-operator/base/logger';
import { ownSandboxName } from '../../../../src/resources/ids.ts';
import { ownerAnnotation, sandboxes, type Sandbox } from '../../../../src/resources/sandbox.ts';
import type { SandboxPool } from '../../../../src/resources/sandbox-pool.ts';
import type { ConversationQuotaSpec } from '../../../../src/resources/conversation-quota.ts';
import { AdmissionScene } from '../../../support/admission-scene.ts';
import {
  aClaim,
  aConversation,
  aPod,
  aPool,
  aQuota,
  aSandbox,
  aWarmSandbox,
  aTemplate,
  condition,
  noon,
} from '../../../support/builders.ts';

const { signal } = new AbortController();

class ClaimScene extends AdmissionScene {
  readonly metrics = createMetrics();
  readonly pools = new IndexedStore<SandboxPool>(poolIndexers);
  readonly volumes = new IndexedStore<PersistentVolumeClaim>();
  readonly claims = new WarmSandboxClaims({
    client: this.client,
    stores: { ...this.stores, pools: this.pools, claims: this.volumes },
    admission: this.admission,
    metrics: this.metrics,
    logger: silentLogger,
    clock: this.clock,
  });

  constructor() {
    super();
    this.pools.set(aPool());
    this.stores.templates.set(aTemplate());
  }

  async warmSandbox(name: string, made: Sandbox = aWarmSandbox(name)): Promise<Sandbox> {
    this.client.put(sandboxes, made);
    this.client.put(pods, aPod(made, {}, { uid: made.status?.podUID ?? '' }));
    const stored = await this.stored(name);
    this.show(stored);
    return stored;
  }

  async claim(name: string, owner = 'alice'): Promise<string | undefined> {
    const conversation = aConversation({ name, spec: { owner } });
    return (await this.claims.claim(conversation, signal))?.metadata.name;
  }

  async results(): Promise<Record<string, number>> {
    const { values } = await this.metrics.poolStarts.get();
    return Object.fromEntries(values.map(({ labels, value }) => [String(labels['result']), value]));
  }
}

let scene: ClaimScene;
beforeEach(() => {
  scene = new ClaimScene();
});
afterEach(() => scene.stop());

const quota = (spec: Partial<ConversationQuotaSpec>) => scene.addQuota(aQuota('default', spec));

it('gives a start the oldest warm sandbox, which then belongs to the conversation alone', async () => {
  await scene.warmSandbox('b');
  await scene.warmSandbox('a');
  expect(await scene.claim('one')).toBe('a');
  const { metadata, spec } = await scene.stored('a');
  expect(spec).toMatchObject({ owner: 'alice', poolName: 'default' });
  expect(metadata.ownerReferences).toMatchObject([
    { kind: 'Conversation', name: 'one', controller: true },
  ]);
  expect(scene.takenBy('alice')).toBe(1);
  expect(await scene.results()).toEqual({ claimed: 1 });
});

it('names the owner on the pod, which keeps its node from then on, by one write', async () => {
  await scene.warmSandbox('a');
  await scene.claim('one');
  const pod = await scene.client.get(pods, 'default', 'a');
  expect(pod.metadata.annotations).toMatchObject({
    [ownerAnnotation]: 'alice',
    'cluster-autoscaler.kubernetes.io/safe-to-evict': 'false',
    'karpenter.sh/do-not-disrupt': 'true',
  });
});

it('gives no warm sandbox to two starts, however many ask at once', async () => {
  for (const name of ['a', 'b', 'c']) await scene.warmSandbox(name);
  const claimed = await Promise.all(
    ['1', '2', '3', '4', '5'].map((name) => scene.claim(name, `owner-${name}`)),
  );
  expect(claimed.filter((name) => name !== undefined).sort()).toEqual(['a', 'b', 'c']);
});

it('never exceeds the limit of an owner, however many starts ask at once', async () => {
  await quota({ limit: 2 });
  for (const name of ['a', 'b', 'c', 'd']) await scene.warmSandbox(name);
  const claimed = await Promise.all(['1', '2', '3', '4'].map((name) => scene.claim(name)));
  expect(claimed.filter((name) => name !== undefined)).toHaveLength(2);
  expect(scene.takenBy('alice')).toBe(2);
  expect(await scene.results()).toEqual({ claimed: 2, quota: 2 });
});

it('takes the next warm sandbox where the cache is behind another claim', async () => {
  await scene.warmSandbox('a');
  await scene.warmSandbox('b');
  await scene.client.mergePatch(sandboxes, 'default', 'a', { spec: { owner: 'bob' } });
  expect(await scene.claim('one')).toBe('b');
  expect((await scene.stored('a')).spec.owner).toBe('bob');
  expect(scene.takenBy('bob')).toBe(1);
});

/** Runs instead of a patch of the resource; `send` executes the patch. */
type Fault = (send: () => Promise<unknown>) => Promise<unknown>;
function failing(plural: string, fault: Fault): { readonly names: string[]; end(): void } {
  const { client } = scene;
  const names: string[] = [];
  const patch = client.mergePatch.bind(client);
  client.mergePatch = async (resource, namespace, name, body, options) => {
    const send = () => patch(resource, namespace, name, body, options);
    if (resource.plural !== plural) return send();
    names.push(name);
    return (await fault(send)) as Awaited<ReturnType<typeof send>>;
  };
  return { names, end: () => void (client.mergePatch = patch) };
}
const refusing = (status: number) => () =>
  Promise.reject(new ApiError(status, { reason: 'Denied', message: 'denied the request' }));
const losing: Fault = async (send) => {
  await send();
  throw new TransportError('no answer');
};

describe('a claim that the API server refuses', () => {
  it.each(
    [400, 403, 409, 422, 429, 500, 503].flatMap((status) =>
      [pods.plural, sandboxes.plural].map((plural) => [status, plural] as const),
    ),
  )(
    'with %s for one of the %s makes a cold start, and leaves the warm sandbox',
    async (status, plural) => {
      await quota({ limit: 1, onExceeded: 'Reject' });
      await scene.warmSandbox('a');
      const faults = failing(plural, refusing(status));
      expect(await scene.claim('one')).toBeUndefined();
      expect(await scene.results()).toEqual({ refused: 1 });
      expect(scene.takenBy('alice')).toBe(0);
      faults.end();
      expect(await scene.claim('two')).toBe('a');
    },
  );

  it('tries no warm sandbox twice', async () => {
    for (const name of ['a', 'b', 'c', 'd', 'e']) await scene.warmSandbox(name);
    for (const name of ['a', 'b']) await scene.client.delete(pods, 'default', name);
    const { names } = failing(pods.plural, (send) => send());
    expect(await scene.claim('one')).toBe('c');
    expect(names).toEqual(['a', 'b', 'c']);
  });

  it('counts for the owner no longer than its outcome is unknown', async () => {
    await scene.warmSandbox('a');
    await scene.client.mergePatch(sandboxes, 'default', 'a', {
      spec: { replicas: 1 },
      metadata: { labels: { a: 'b' } },
    });
    const { client } = scene;
    const get = client.get.bind(client);
    client.get = refusing(429);
    expect(await scene.claim('one')).toBeUndefined();
    client.get = get;
    await scene.clock.advance(15_000);
    expect(scene.takenBy('alice')).toBe(0);
    scene.show(await scene.stored('a'));
    expect(await scene.claim('two', 'bob')).toBe('a');
  });
});

describe('a claim without an answer', () => {
  it.each<[string, Fault]>([
    ['whose connection is lost', losing],
    [
      'that an error answers',
      async (send) => {
        await send();
        throw new ApiError(500, { message: 'etcd does not answer' });
      },
    ],
  ])('%s is found by a second one', async (_, fault) => {
    await quota({ limit: 1 });
    await scene.warmSandbox('a');
    failing(sandboxes.plural, fault);
    expect(await scene.claim('one')).toBe('a');
    expect(scene.takenBy('alice')).toBe(1);
  });

  it('is sent again, and executed once', async () => {
    await scene.warmSandbox('a');
    const { names } = failing(sandboxes.plural, (send) =>
      names.length === 1 ? Promise.reject(new TransportError('timed out')) : send(),
    );
    expect(await scene.claim('one')).toBe('a');
    expect(names).toEqual(['a', 'a']);
  });

  it('counts for the owner, and takes the warm sandbox for no other, until the outcome is known', async () => {
    await quota({ limit: 1 });
    await scene.warmSandbox('a');
    await scene.warmSandbox('b');
    const faults = failing(sandboxes.plural, () => Promise.reject(new TransportError('timed out')));
    await expect(scene.claim('one')).rejects.toThrow(TransportError);
    faults.end();
    expect(scene.takenBy('alice')).toBe(1);
    expect(await scene.claim('two')).toBeUndefined();
    expect(await scene.claim('three', 'bob')).toBe('b');
    await scene.clock.advance(15_000);
    expect(scene.takenBy('alice')).toBe(0);
    expect(await scene.claim('four')).toBe('a');
  });
});

const unready: [string, () => Promise<unknown>, string][] = [
  ['there is none', () => Promise.resolve(), 'empty'],
  [
    'none has booted',
    () =>
      scene.warmSandbox('a', aWarmSandbox('a', { conditions: [condition('Admitted', 'True')] })),
    'empty',
  ],
  [
    'its agent has run',
    () => scene.warmSandbox('a', aWarmSandbox('a', { lastContainerID: 'x' })),
    'empty',
  ],
  [
    'it was evicted',
    () =>
      scene.warmSandbox(
        'a',
        aWarmSandbox('a', {
          conditions: [
            condition('Admitted', 'False', 'Quota'),
            condition('Ready', 'False', 'Spare'),
          ],
        }),
      ),
    'empty',
  ],
  [
    'the pod is another one',
    async () => {
      const warmSandbox = await scene.warmSandbox('a');
      scene.client.put(pods, aPod(warmSandbox, {}, { uid: 'another' }));
    },
    'empty',
  ],
  [
    'the template has changed',
    async () => {
      await scene.warmSandbox('a');
      const template = aTemplate();
      const metadata = { ...template.metadata, generation: 2 };
      scene.stores.templates.set({ ...template, metadata });
    },
    'empty',
  ],
  [
    'its pool is going',
    async () => {
      await scene.warmSandbox('a');
      const pool = aPool();
      const deletionTimestamp = noon;
      scene.pools.set({ ...pool, metadata: { ...pool.metadata, deletionTimestamp } });
    },
    'empty',
  ],
  [
    'its pool is gone, and another one of the template has no warm sandbox',
    async () => {
      await scene.warmSandbox('a');
      scene.pools.delete('default', 'default');
      scene.pools.set(aPool({}, 'other'));
    },
    'empty',
  ],
  [
    'a volume was retained for the start',
    async () => {
      await scene.warmSandbox('a');
      scene.volumes.set(aClaim(aSandbox({ name: ownSandboxName('0'.repeat(32)) })));
    },
    'unfit',
  ],
];
it.each(unready)('leaves a start cold when %s', async (_, arrange, result) => {
  await arrange();
  expect(await scene.claim('0'.repeat(32))).toBeUndefined();
  expect(await scene.results()).toEqual({ [result]: 1 });
});

describe('while several owners start', () => {
  const warmSandboxes = async (...names: readonly string[]) => {
    for (const name of names) await scene.warmSandbox(name);
  };

  it('leaves the warm sandboxes to the others once an owner has claimed its share', async () => {
    await scene.claim('of bob', 'bob');
    let ofMallory = 0;
    let ofBob = 0;
    for (let round = 0; round < 9; round++) {
      await scene.warmSandbox(`spare-${round}`);
      // The loop of one owner always asks first.
      for (let start = 0; start < 5; start++)
        if ((await scene.claim(`m-${round}-${start}`, 'mallory')) !== undefined) ofMallory++;
      if ((await scene.claim(`b-${round}`, 'bob')) !== undefined) ofBob++;
      await scene.clock.advance(1_000);
    }
    expect({ ofMallory, ofBob }).toEqual({ ofMallory: 5, ofBob: 4 });
    expect((await scene.results())['share']).toBeGreaterThan(0);
  });

  it('counts the claims that are sent at once', async () => {
    await scene.claim('of bob', 'bob');
    await warmSandboxes('a', 'b', 'c', 'd');
    const claimed = await Promise.all(
      ['1', '2', '3', '4'].map((name) => scene.claim(name, 'mallory')),
    );
    expect(claimed.filter((name) => name !== undefined)).toHaveLength(2);
  });

  it('gives every warm sandbox to an owner that has been alone for a minute', async () => {
    await scene.claim('of bob', 'bob');
    await scene.clock.advance(60_000);
    await warmSandboxes('a', 'b', 'c');
    for (const name of ['a', 'b', 'c']) expect(await scene.claim(name, 'mallory')).toBe(name);
  });

  it('does not count a claim that another writer has prevented', async () => {
    await scene.claim('of bob', 'bob');
    await warmSandboxes('a', 'b');
    await scene.client.mergePatch(sandboxes, 'default', 'a', { spec: { owner: 'carol' } });
    expect(await scene.claim('one', 'mallory')).toBe('b');
    await warmSandboxes('c', 'd');
    expect(await scene.claim('two', 'mallory')).toBe('c');
  });
});

it('counts nothing for a template without a pool', async () => {
  scene.pools.delete('default', 'default');
  await scene.warmSandbox('a');
  expect(await scene.claim('one')).toBeUndefined();
  expect(await scene.results()).toEqual({});
});

it('finds warm sandboxes by their pool and their template, and claimed sandboxes by their conversation', () => {
  const store = new IndexedStore<Sandbox>(sandboxIndexers);
  store.set(aWarmSandbox('a'));
  expect(store.byIndex('warmSandboxPool', 'default/default')).toHaveLength(1);
  store.set({ ...aWarmSandbox('a'), spec: { ...aWarmSandbox('a').spec, owner: 'alice' } });
  expect(store.byIndex('warmSandboxPool', 'default/default')).toHaveLength(0);
});

describe('a claim moves a count of maxSandboxes, and adds none', () => {
  const shown = (index: number) => {
    const one = aConversation({ name: String(index).padStart(32, '0') });
    const creationTimestamp = `2026-03-01T12:00:0${index}Z`;
    scene.showConversation({ ...one, metadata: { ...one.metadata, creationTimestamp } });
    return { ...one, metadata: { ...one.metadata, creationTimestamp } };
  };
  const codeOf = (one: ReturnType<typeof shown>) =>
    scene.admission.limits.refusalOf(one)?.code ?? 'accepted';

  it.each(['Owner', 'Namespace'] as const)('under the limit of scope %s', async (scope) => {
    await quota({ scope, limit: 100, maxSandboxes: 2 });
    for (const name of ['a', 'b', 'c']) await scene.warmSandbox(name);
    const one = shown(1);
    expect(codeOf(one)).toBe('accepted');
    // No watch shows the claimed sandbox yet.
    expect((await scene.claims.claim(one, signal))?.metadata.name).toBe('a');
    expect([codeOf(shown(2)), codeOf(shown(3))]).toEqual(['accepted', 'SandboxLimitExceeded']);
    scene.show(await scene.stored('a'));
    expect(codeOf(shown(4))).toBe('SandboxLimitExceeded');
  });

  it('while the API server has not answered, and once it has refused', async () => {
    await quota({ limit: 100, maxSandboxes: 2 });
    await scene.warmSandbox('a');
    const one = shown(1);
    expect(codeOf(one)).toBe('accepted');
    let later: string[] = [];
    failing(sandboxes.plural, () => {
      later = [codeOf(shown(2)), codeOf(shown(3))];
      return Promise.reject(new ApiError(403, { reason: 'Forbidden', message: 'no' }));
    });
    expect(await scene.claims.claim(one, signal)).toBeUndefined();
    expect(later).toEqual(['accepted', 'SandboxLimitExceeded']);
    expect([codeOf(one), codeOf(shown(4))]).toEqual(['accepted', 'SandboxLimitExceeded']);
  });
});
