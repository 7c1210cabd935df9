import { silentLogger } from '@conversation-operator/base/logger';
import { PushRecords } from '../../../../src/gateway/git/push-records.ts';
import { cachedConversation } from '../../../../src/resources/cached-conversation.ts';
import { conversations, type Conversation } from '../../../../src/resources/conversation.ts';
import { maxPushes } from '../../../../src/resources/git-settings.ts';
import { aStoredConversation, noonMs } from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const grant = { repository: 'acme/shop', provider: 'github' } as const;
const command = { ref: 'refs/heads/agent/fix', oldId: '0'.repeat(40), newId: '1'.repeat(40) };

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
  it('has the last pushes of a conversation, with the outcome of each', async () => {
    const { client, service, pushes } = records();
    const stored = client.put(conversations, aStoredConversation());
    const refs = Array.from({ length: maxPushes + 3 }, (_none, index) => `refs/heads/${index}`);
    for (const ref of refs) {
      const push = await service.begin(cachedConversation(stored), grant, [{ ...command, ref }]);
      const isLast = ref === refs.at(-1);
      if (!isLast) await service.end(push, { outcomeOf: () => 'Accepted', bytes: 1 });
    }
    expect(
      (await pushes(stored.metadata.name)).map(({ ref, outcome }) => `${ref} ${outcome}`),
    ).toEqual(refs.slice(3).map((ref) => `${ref} ${ref === refs.at(-1) ? 'Unknown' : 'Accepted'}`));
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
