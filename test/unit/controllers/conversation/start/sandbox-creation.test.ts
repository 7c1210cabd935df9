import { sandboxIndexers } from '../../../../../src/controllers/caches.ts';
import { ensureSandbox } from '../../../../../src/controllers/conversation/start/sandbox-creation.ts';
import {
  findSandbox,
  type SandboxAccess,
} from '../../../../../src/controllers/conversation/sandbox-lookup.ts';
import { IndexedStore } from '../../../../../packages/kube/src/store.ts';
import { conversations } from '../../../../../src/resources/conversation.ts';
import { ownerReferenceTo } from '../../../../../packages/kube/src/object.ts';
import { sandboxes, type Sandbox } from '../../../../../src/resources/sandbox.ts';
import { aConversation, aSandbox } from '../../../../support/builders.ts';
import { FakeKubeClient } from '../../../../support/fake-kube-client.ts';

const { signal } = new AbortController();
const ofUid = (uid: string): Sandbox => {
  const sandbox = aSandbox();
  return { ...sandbox, metadata: { ...sandbox.metadata, uid } };
};

/** The API server has one sandbox of the name, and the cache another. */
function access({
  cached,
  stored,
}: {
  readonly cached?: Sandbox;
  readonly stored?: Sandbox;
}): SandboxAccess {
  const client = new FakeKubeClient();
  if (stored !== undefined) client.put(sandboxes, stored);
  const store = new IndexedStore<Sandbox>(sandboxIndexers);
  if (cached !== undefined) store.set(cached);
  return { client, store };
}

describe('the sandbox of a conversation', () => {
  const find = async (known: Parameters<typeof access>[0], sandboxUID?: string) =>
    (
      await findSandbox(
        access(known),
        'default',
        { sandboxName: 'sbx-1', ...(sandboxUID === undefined ? {} : { sandboxUID }) },
        signal,
      )
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
    ensureSandbox(
      { client, store: new IndexedStore<Sandbox>(sandboxIndexers) },
      conversation,
      signal,
    );
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
  const maker = aConversation({ name: '2'.padStart(32, '0') });
  const made = aSandbox();
  const client = new FakeKubeClient();
  client.put(sandboxes, {
    ...made,
    metadata: {
      ...made.metadata,
      ownerReferences: [ownerReferenceTo(maker, { controller: true })],
    },
  });
  const keepers = async () =>
    (await client.get(sandboxes, 'default', 'sbx-1')).metadata.ownerReferences?.map(
      ({ name }) => name,
    );
  const join = async () =>
    ensureSandbox(
      { client, store: new IndexedStore<Sandbox>(sandboxIndexers) },
      joining('WORKING'),
      signal,
    );
  client.put(conversations, joining('ERROR'));
  expect(await join()).toBeUndefined();
  expect(await keepers()).toEqual([maker.metadata.name]);
  client.put(conversations, joining('WORKING'));
  expect(await join()).toBeDefined();
  expect(await keepers()).toEqual([maker.metadata.name, joining('WORKING').metadata.name]);
});
