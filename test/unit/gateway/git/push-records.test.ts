import { silentLogger } from '@conversation-operator/base/logger';
import { PushRecords } from '../../../../src/gateway/git/push-records.ts';
import { cachedConversation } from '../../../../src/resources/cached-conversation.ts';
import { conversations, type Conversation } from '../../../../src/resources/conversation.ts';
import { maxPushes } from '../../../../src/resources/git-settings.ts';
import { aSandbox, aStoredConversation, noonMs } from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const address = { repository: 'acme/shop', provider: 'github' } as const;
const from = { requestId: 'r', client: '10.0.0.7', sandbox: aSandbox() };
const command = { ref: 'refs/heads/agent/fix', oldId: '0'.repeat(40), newId: '1'.repeat(40) };

function records() {
  const client = new FakeKubeClient();
  const audit: string[] = [];
  const fields: unknown[] = [];
  const service = new PushRecords({
    client,
    clock: new VirtualClock(noonMs),
    logger: silentLogger,
    events: { record: () => undefined },
    audit: (line, of) => {
      audit.push(line);
      fields.push(of);
    },
  });
  const pushes = async (name: string) =>
    (await client.get(conversations, 'default', name)).status?.pushes ?? [];
  return { client, audit, fields, service, pushes };
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
      const push = await service.begin({
        from,
        conversation: cachedConversation(stored),
        address,
        commands: [{ ...command, ref }],
      });
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
    const push = { from, conversation: cachedConversation(old), address, commands: [command] };
    await expect(service.begin(push)).rejects.toMatchObject({ code: 'not-found' });
    expect(await pushes(old.metadata.name)).toEqual([]);
    expect(audit).toEqual([]);
  });

  it('of which the host gets nothing says how much of it the audit leaves out', () => {
    const { fields, service } = records();
    service.refuse({
      from,
      conversation: cachedConversation(aStoredConversation()),
      address,
      reasons: ['no'],
      push: {
        commands: Array.from({ length: 23 }, (_none, at) => ({ ...command, ref: `refs/${at}` })),
        options: ['x'.repeat(301), 'y'.repeat(300)],
      },
    });
    const refs = Array.from({ length: 20 }, (_none, at) => `refs/${at}`);
    expect(fields).toMatchObject([
      {
        refs: [...refs, '… and 3 more'],
        options: [`${'x'.repeat(299)}…`, 'y'.repeat(300)],
        reasons: ['no'],
      },
    ]);
  });
});
