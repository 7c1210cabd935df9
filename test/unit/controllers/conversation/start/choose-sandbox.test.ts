import { sandboxIndexers } from '../../../../../src/controllers/caches.ts';
import {
  ensureSandbox,
  type StartAccess,
  ownSandboxNames,
} from '../../../../../src/controllers/conversation/start/choose-sandbox.ts';
import {
  findSandbox,
  type SandboxAccess,
} from '../../../../../src/controllers/conversation/reconcile.ts';
import type { CachedClaim, CachedPod } from '../../../../../src/resources/cached-core.ts';
import { sceneKeys } from '../../../../support/sandbox-scene.ts';
import { IndexedStore } from '@conversation-operator/kube/store';
import { conversations } from '../../../../../src/resources/conversation.ts';
import { ownerReferenceTo, type OwnerReference } from '@conversation-operator/kube/object';
import { ownerAnnotation, sandboxes, type Sandbox } from '../../../../../src/resources/sandbox.ts';
import { aConversation, aSandbox } from '../../../../support/builders.ts';
import { FakeKubeClient } from '../../../../support/fake-kube-client.ts';

const { signal } = new AbortController();
/** No write of this process proves the age of a conversation. */
const ofUid = (uid: string): Sandbox => {
  const sandbox = aSandbox();
  return { ...sandbox, metadata: { ...sandbox.metadata, uid } };
};

const storesOf = () => ({
  sandboxes: new IndexedStore<Sandbox>(sandboxIndexers),
  pods: new IndexedStore<CachedPod>(),
  claims: new IndexedStore<CachedClaim>(),
});

/** The API server has one sandbox of the name, and the cache another. */
function access({
  cached,
  stored,
}: {
  readonly cached?: Sandbox;
  readonly stored?: Sandbox;
}): SandboxAccess & StartAccess & { readonly client: FakeKubeClient } {
  const client = new FakeKubeClient();
  if (stored !== undefined) client.put(sandboxes, stored);
  const stores = storesOf();
  if (cached !== undefined) stores.sandboxes.set(cached);
  return { client, signal, store: stores.sandboxes, stores, keys: sceneKeys };
}

describe('the sandbox of a conversation', () => {
  const find = async (known: Parameters<typeof access>[0], sandboxUID?: string) =>
    (
      await findSandbox(access(known), 'default', {
        sandboxName: 'sbx-1',
        ...(sandboxUID === undefined ? {} : { sandboxUID }),
      })
    )?.metadata.uid;

  it.each([
    ['is the cached one', { cached: ofUid('a') }, 'a', 'a'],
    ['is the stored one where the cache has none yet', { stored: ofUid('a') }, 'a', 'a'],
    [
      'is the stored one where the cache still has the one before',
      { cached: ofUid('old'), stored: ofUid('a') },
      'a',
      'a',
    ],
    [
      'is gone when another has its name',
      { cached: ofUid('other'), stored: ofUid('other') },
      'a',
      undefined,
    ],
    ['is gone when there is none of its name', {}, 'a', undefined],
    ['is any of its name when it was stored without a uid', { cached: ofUid('a') }, undefined, 'a'],
  ])('%s', async (_sentence, known, uid, expected) => {
    expect(await find(known, uid)).toBe(expected);
  });
});

it('joins a sandbox as the API server has it, not the one before it that the cache still shows', async () => {
  const conversation = aConversation({ spec: { sandboxName: 'sbx-1' } });
  const joined = await ensureSandbox(
    access({ cached: ofUid('old'), stored: ofUid('new') }),
    conversation,
    signal,
  );
  expect(joined?.metadata.uid).toBe('new');
});

it('is created for a conversation that the API server has, and for none that only the cache contains', async () => {
  const conversation = aConversation({ status: { start: { status: 'WORKING', transitions: [] } } });
  const client = new FakeKubeClient();
  const ensure = async () =>
    ensureSandbox({ client, stores: storesOf(), keys: sceneKeys }, conversation, signal);
  expect(await ensure()).toBeUndefined();
  expect((await client.list(sandboxes)).items).toEqual([]);
  client.put(conversations, conversation);
  expect(await ensure()).toMatchObject({ spec: { owner: conversation.spec.owner } });
});

it('is not kept by a conversation whose start has failed, which the cache shows as one that is to join', async () => {
  const joining = (status: 'WORKING' | 'ERROR') =>
    aConversation({
      spec: { sandboxName: 'sbx-1' },
      status: { start: { status, transitions: [] } },
    });
  const issuer = aConversation({ name: '2'.padStart(32, '0') });
  const made = aSandbox();
  const client = new FakeKubeClient();
  client.put(sandboxes, {
    ...made,
    metadata: {
      ...made.metadata,
      ownerReferences: [ownerReferenceTo(issuer, { controller: true })],
    },
  });
  const keepers = async () =>
    (await client.get(sandboxes, 'default', 'sbx-1')).metadata.ownerReferences?.map(
      ({ name }) => name,
    );
  const join = async () =>
    ensureSandbox({ client, stores: storesOf(), keys: sceneKeys }, joining('WORKING'), signal);
  client.put(conversations, joining('ERROR'));
  expect(await join()).toBeUndefined();
  expect(await keepers()).toEqual([issuer.metadata.name]);
  client.put(conversations, joining('WORKING'));
  expect(await join()).toBeDefined();
  expect(await keepers()).toEqual([issuer.metadata.name, joining('WORKING').metadata.name]);
});

describe('the own sandbox of a start', () => {
  const conversation = aConversation({ spec: { owner: 'bob' } });
  const [ownName = '', derivedName = ''] = ownSandboxNames(conversation, sceneKeys);
  const reference = ownerReferenceTo(conversation, { controller: true });
  const made = (wish: {
    readonly name: string;
    readonly owner: string;
    readonly template?: string;
    readonly reference?: OwnerReference;
    readonly deleting?: boolean;
  }): Sandbox => {
    const sandbox = aSandbox(wish);
    return {
      ...sandbox,
      metadata: {
        ...sandbox.metadata,
        ...(wish.reference === undefined ? {} : { ownerReferences: [wish.reference] }),
      },
      spec: { ...sandbox.spec, templateName: wish.template ?? 'default' },
    };
  };
  interface Scene {
    readonly cached?: readonly Sandbox[];
    readonly stored?: readonly Sandbox[];
    readonly pods?: readonly CachedPod[];
    readonly claims?: readonly CachedClaim[];
  }
  const start = async ({ cached = [], stored = cached, pods = [], claims = [] }: Scene) => {
    const client = new FakeKubeClient();
    client.put(conversations, conversation);
    for (const sandbox of stored) client.put(sandboxes, sandbox);
    const stores = storesOf();
    for (const sandbox of cached) stores.sandboxes.set(sandbox);
    for (const pod of pods) stores.pods.set(pod);
    for (const claim of claims) stores.claims.set(claim);
    const access = { client, stores, keys: sceneKeys };
    const sandbox = await ensureSandbox(access, conversation, signal);
    return sandbox && { name: sandbox.metadata.name, owner: sandbox.spec.owner };
  };
  const ofMallory = made({ name: ownName, owner: 'mallory', reference });
  const leftBy = (owner: string): CachedClaim & CachedPod => ({
    apiVersion: 'v1',
    kind: 'Left',
    metadata: {
      ...aSandbox({ name: ownName }).metadata,
      annotations: { [ownerAnnotation]: owner },
    },
  });

  it.each<[string, Scene, string]>([
    ['is created under the name of the conversation', {}, ownName],
    [
      'is found again after a crash',
      { cached: [made({ name: 'sbx-claimed', owner: 'bob', reference })] },
      'sbx-claimed',
    ],
    [
      'is found again where the cache does not show it yet',
      { stored: [made({ name: ownName, owner: 'bob', reference })] },
      ownName,
    ],
    [
      'is not the sandbox of another owner that names the conversation',
      { cached: [made({ name: 'sbx-any', owner: 'mallory', reference })] },
      ownName,
    ],
    [
      'is created under another name where another owner has taken the name',
      { cached: [ofMallory] },
      derivedName,
    ],
    [
      'is created under another name where only the API server knows that the name is taken',
      { stored: [ofMallory] },
      derivedName,
    ],
    [
      'is found again under its other name',
      { stored: [ofMallory, made({ name: derivedName, owner: 'bob', reference })] },
      derivedName,
    ],
    [
      'is created under another name while the pod of a sandbox of another owner has the name',
      { pods: [leftBy('mallory')] },
      derivedName,
    ],
    [
      'is created under another name where the volume of another owner has the name',
      { claims: [leftBy('mallory')] },
      derivedName,
    ],
    [
      'is created under its name where its owner has kept the volume',
      { claims: [leftBy('bob')] },
      ownName,
    ],
    [
      'is not a sandbox of its owner from another template',
      { cached: [made({ name: 'sbx-any', owner: 'bob', template: 'other', reference })] },
      ownName,
    ],
    [
      'is not a sandbox of its owner that it only joined',
      {
        cached: [
          made({ name: 'sbx-any', owner: 'bob', reference: { ...reference, controller: false } }),
        ],
      },
      ownName,
    ],
  ])('%s', async (_sentence, scene, name) => {
    expect(await start(scene)).toEqual({ name, owner: 'bob' });
  });

  it.each<[string, Scene]>([
    [
      'an earlier conversation of the same owner has the name',
      { cached: [made({ name: ownName, owner: 'bob' })] },
    ],
    [
      'only the API server knows that an earlier conversation has the name',
      { stored: [made({ name: ownName, owner: 'bob' })] },
    ],
    [
      'it is being deleted',
      { cached: [made({ name: ownName, owner: 'bob', reference, deleting: true })] },
    ],
  ])('waits while %s', async (_sentence, scene) => {
    expect(await start(scene)).toBeUndefined();
  });

  it('ends in an error where other owners have every name', async () => {
    const stored = [ofMallory, made({ name: derivedName, owner: 'mallory', reference })];
    await expect(start({ stored })).rejects.toMatchObject({ code: 'SandboxNameTaken' });
  });
});
