import { silentLogger } from '@conversation-operator/base/logger';
import { PushRecords } from '../../../../src/gateway/git/push-records.ts';
import { cachedConversation } from '../../../../src/resources/cached-conversation.ts';
import { conversations, type Conversation } from '../../../../src/resources/conversation.ts';
import { maxPushes } from '../../../../src/resources/git-settings.ts';
import { aStoredConversation, noon, noonMs } from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const grant = { repository: 'acme/shop', provider: 'github' } as const;
const command = { ref: 'refs/heads/agent/fix', oldId: '0'.repeat(40), newId: '1'.repeat(40) };
const aPush = (id: string) => ({ ...command, id, time: noon, outcome: 'Accepted' as const });

function records() {
  const client = new FakeKubeClient();
  const audit: string[] = [];
  const service = new PushRecords({
    ...{ client, clock: new VirtualClock(noonMs), logger: silentLogger },
    events: { record: () => undefined },
    audit: { ...silentLogger, info: (line) => void audit.push(line) },
  });
  const pushes = async (name: string) =>
    (await client.get(conversations, 'default', name)).status?.pushes ?? [];
  return { client, audit, service, pushes };
}

const recreated = (conversation: Conversation): Conversation => ({
  ...conversation,
  metadata: { ...conversation.metadata, uid: 'another-uid' },
});

describe('the record of a push', () => {
  it('takes the place of the oldest one where there are as many as may be kept', async () => {
    const { client, service, pushes } = records();
    const before = Array.from({ length: maxPushes }, (_, index) => aPush(`push-${index}`));
    const stored = client.put(conversations, aStoredConversation({ status: { pushes: before } }));
    const { id } = await service.begin(cachedConversation(stored), grant, [command]);
    expect((await pushes(stored.metadata.name)).map((push) => push.id)).toEqual([
      ...before.slice(1).map((push) => push.id),
      id,
    ]);
  });

  it('is not of a conversation that has been created anew under the name', async () => {
    const { client, audit, service, pushes } = records();
    const old = aStoredConversation();
    client.put(conversations, recreated(old));
    await expect(service.begin(cachedConversation(old), grant, [command])).rejects.toMatchObject({
      code: 'not-found',
    });
    expect(await pushes(old.metadata.name)).toEqual([]);
    expect(audit).toEqual([]);
  });
});
