import { silentLogger } from '@conversation-operator/base/logger';
import { ModelWaits } from '../../../../src/gateway/models/model-waits.ts';
import { conversations } from '../../../../src/resources/conversation.ts';
import type { ConversationStatus } from '../../../../src/resources/conversation-status.ts';
import { aConversation, aStoredConversation, noonMs } from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const { namespace, name } = aConversation().metadata;

class Bench {
  readonly client = new FakeKubeClient();
  readonly clock = new VirtualClock(noonMs);
  readonly waits: ModelWaits;
  writes = 0;
  fails = false;

  constructor() {
    this.client.put(conversations, aStoredConversation({}));
    this.client.fault = () => {
      this.writes++;
      return this.fails ? new Error('away') : undefined;
    };
    this.waits = new ModelWaits({ client: this.client, clock: this.clock, logger: silentLogger });
  }

  async tell(ms: number, reason: 'RateLimit' | 'Share' = 'RateLimit'): Promise<void> {
    this.waits.tell(aConversation(), { reason, ms });
    await this.clock.settle();
  }

  async stored() {
    this.client.fault = () => undefined;
    return (await this.client.get(conversations, namespace, name)).status?.modelWait;
  }
}

it('stores the time and the reason of a wait, and keeps the rest of the status', async () => {
  const bench = new Bench();
  const before: ConversationStatus = { start: { status: 'READY', transitions: [] } };
  bench.client.put(conversations, aStoredConversation({ status: before }));
  await bench.tell(12_000);
  expect(await bench.stored()).toEqual({
    until: new Date(noonMs + 12_000).toISOString(),
    reason: 'RateLimit',
  });
  const { status } = await bench.client.get(conversations, namespace, name);
  expect(status?.start).toEqual(before.start);
});

it('writes at most once in five seconds, and only what is later or another reason', async () => {
  const bench = new Bench();
  await bench.tell(12_000);
  await bench.clock.advance(4_999);
  await bench.tell(60_000, 'Share');
  expect(bench.writes).toBe(1);
  await bench.clock.advance(1);
  await bench.tell(7_500);
  expect(bench.writes).toBe(1);
  await bench.tell(7_500, 'Share');
  expect(bench.writes).toBe(2);
  await bench.clock.advance(5_000);
  await bench.tell(10_000, 'Share');
  expect(bench.writes).toBe(3);
  expect((await bench.stored())?.until).toBe(new Date(noonMs + 20_000).toISOString());
});

it('leaves a write out that fails, and tells of the next wait', async () => {
  const bench = new Bench();
  bench.fails = true;
  await bench.tell(12_000);
  bench.fails = false;
  await bench.clock.advance(5_000);
  await bench.tell(12_000);
  expect((await bench.stored())?.until).toBe(new Date(noonMs + 17_000).toISOString());
});

it('writes nothing to another conversation of the same name', async () => {
  const bench = new Bench();
  const other = aStoredConversation({});
  bench.client.put(conversations, { ...other, metadata: { ...other.metadata, uid: 'another' } });
  await bench.tell(12_000);
  expect(await bench.stored()).toBeUndefined();
});

it('writes of a flood of waits no more than ten each second', async () => {
  const bench = new Bench();
  const conversation = aConversation();
  for (let number = 0; number < 500; number++) {
    const metadata = { ...conversation.metadata, uid: `uid-${number}` };
    bench.waits.tell({ metadata }, { reason: 'RateLimit', ms: 60_000 });
  }
  await bench.clock.settle();
  expect(bench.writes).toBe(50);
  await bench.clock.advance(1_000);
  for (let number = 100; number < 200; number++) {
    const metadata = { ...conversation.metadata, uid: `uid-${number}` };
    bench.waits.tell({ metadata }, { reason: 'RateLimit', ms: 60_000 });
  }
  await bench.clock.settle();
  expect(bench.writes).toBe(60);
});
