import { silentLogger } from '@conversation-operator/base/logger';
import { PushRecords } from '../../../../src/gateway/git/push-records.ts';
import { cachedConversation } from '../../../../src/resources/cached-conversation.ts';
import { conversations } from '../../../../src/resources/conversation.ts';
import { maxPushes } from '../../../../src/resources/git-settings.ts';
import { aConversation } from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

it('has the last pushes of a conversation, with the outcome of each', async () => {
  const client = new FakeKubeClient();
  const conversation = cachedConversation(await client.create(conversations, aConversation()));
  const records = new PushRecords({
    ...{ client, clock: new VirtualClock(), logger: silentLogger, audit: silentLogger },
    events: { record: () => undefined },
  });
  const grant = { repository: 'acme/shop', provider: 'github' } as never;
  const refs = Array.from({ length: maxPushes + 3 }, (_none, index) => `refs/heads/${index}`);
  for (const ref of refs) {
    const command = { ref, oldId: '0'.repeat(40), newId: '1'.repeat(40) };
    const push = await records.begin(conversation, grant, [command]);
    const isLast = ref === refs.at(-1);
    if (!isLast) await records.end(push, { accepted: new Set([ref]), bytes: 1 });
  }
  const { metadata } = conversation;
  const { status } = await client.get(conversations, metadata.namespace, metadata.name);
  expect(status?.pushes?.map(({ ref, outcome }) => `${ref} ${outcome}`)).toEqual(
    refs.slice(3).map((ref) => `${ref} ${ref === refs.at(-1) ? 'Unknown' : 'Accepted'}`),
  );
});
