import { storeArchiveStatus } from '../../../../src/controllers/archive/archive-status.ts';
import { cachedConversation } from '../../../../src/resources/cached-conversation.ts';
import { aConversation, noonMs } from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

it('stores nothing, and is no failure, where the conversation is deleted meanwhile', async () => {
  const options = { client: new FakeKubeClient(), clock: new VirtualClock(noonMs) };
  const deleted = cachedConversation(aConversation());
  const change = { reason: 'Following' } as const;
  const { signal } = new AbortController();
  expect(await storeArchiveStatus(options, deleted, { ...change, signal })).toBeUndefined();
});
