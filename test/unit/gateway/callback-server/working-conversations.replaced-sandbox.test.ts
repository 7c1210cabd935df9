import { workingConversations } from '../../../../src/gateway/callback-server/working-conversations.ts';
import { gatewayIndexers } from '../../../../src/gateway/lookup/cache.ts';
import { ResourceLookup } from '../../../../src/gateway/lookup/resource-lookup.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../../../src/resources/cached-conversation.ts';
import { sandboxes, type Sandbox } from '../../../../src/resources/sandbox.ts';
import { aConversation, aSandbox } from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { TestCache } from '../../../support/test-cache.ts';

const started = aSandbox();
const { name, uid, namespace } = started.metadata;
const conversation = cachedConversation(
  aConversation({
    status: { sandboxName: name, sandboxUID: uid, start: { status: 'READY', transitions: [] } },
  }),
);

/** Objects that the gateway finds for the conversation where this sandbox has the name. */
async function foundIn(stored: Sandbox, { isCached = true } = {}) {
  const client = new FakeKubeClient();
  client.put(sandboxes, stored);
  const caches = {
    conversations: new TestCache<CachedConversation>(gatewayIndexers.conversations),
    sandboxes: new TestCache<Sandbox>(gatewayIndexers.sandboxes),
  };
  caches.conversations.set(conversation);
  if (isCached) caches.sandboxes.set(stored);
  const lookup = new ResourceLookup({ client, namespace, caches: caches as never });
  return {
    sandbox: (await lookup.sandboxOf(conversation))?.metadata.uid,
    working: workingConversations(caches.conversations, stored).length,
  };
}

const again: Sandbox = { ...started, metadata: { ...started.metadata, uid: 'uid-of-another' } };
const others: Sandbox = { ...started, spec: { ...started.spec, owner: 'mallory' } };

it.each([
  ['the one in which it has started', started, { sandbox: uid, working: 1 }],
  ['one that was made again under its name', again, { sandbox: undefined, working: 0 }],
  ['one of another owner', others, { sandbox: undefined, working: 0 }],
])('a conversation is in no other sandbox of the name: %s', async (_which, stored, expected) => {
  expect(await foundIn(stored)).toEqual(expected);
  expect(await foundIn(stored, { isCached: false })).toEqual(expected);
});
