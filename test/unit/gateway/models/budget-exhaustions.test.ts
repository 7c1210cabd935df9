import { silentLogger } from '@conversation-operator/base/logger';
import type { EventDetails } from '@conversation-operator/kube/events';
import { BudgetExhaustions } from '../../../../src/gateway/models/budget-exhaustions.ts';
import { recordKeyOf } from '../../../../src/gateway/models/usage-store.ts';
import type { Approval } from '../../../../src/resources/approval.ts';
import { conversations } from '../../../../src/resources/conversation.ts';
import type { ConversationStatus } from '../../../../src/resources/conversation-status.ts';
import { aConversation, aStoredConversation, noon, noonMs } from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const { namespace, name } = aConversation().metadata;
const account = 'default/Month/2026-03-01';
const record = recordKeyOf('default', { owner: 'alice', month: '2026-03' });

class Bench {
  readonly client = new FakeKubeClient();
  readonly clock = new VirtualClock(noonMs);
  readonly events: EventDetails[] = [];
  reads = 0;
  writes = 0;
  fails = false;
  readonly exhaustions: BudgetExhaustions;

  constructor(status: ConversationStatus = {}) {
    this.client.put(conversations, aStoredConversation({ status }));
    this.client.fault = ({ verb }) => {
      if (verb === 'get') this.reads++;
      else this.writes++;
      return this.fails ? new Error('away') : undefined;
    };
    this.exhaustions = new BudgetExhaustions({
      client: this.client,
      clock: this.clock,
      logger: silentLogger,
      events: { record: (_object, event) => void this.events.push(event) },
    });
  }

  refuse(raised = 0, ofConversation = false): Promise<void> {
    const own = { name, uid: aConversation().metadata.uid };
    return this.exhaustions.record({
      conversation: aConversation(),
      message: 'The budget is used up.',
      exhausted: {
        reason: 'exhausted',
        spent: 990_000_000,
        underWay: 0,
        raised,
        budget: ofConversation
          ? {
              record: recordKeyOf('default', { conversation: own }),
              account: 'conversation',
              unit: 'USD',
              limit: 1e9,
              quota: undefined,
              endsAtMs: Infinity,
            }
          : {
              record,
              account,
              unit: 'USD',
              limit: 1e9,
              quota: 'default',
              endsAtMs: Date.parse('2026-04-01T00:00:00Z'),
            },
      },
    });
  }

  async stored() {
    const { status } = await this.client.get(conversations, namespace, name);
    return status?.budgetExhaustion;
  }

  async clear(): Promise<void> {
    const patch = { status: { budgetExhaustion: null } };
    await this.client.mergePatch(conversations, namespace, name, patch, { subresource: 'status' });
    this.writes = 0;
  }
}

it('stores what is used up before the agent reads the refusal', async () => {
  const bench = new Bench();
  await bench.refuse();
  expect(await bench.stored()).toEqual({
    quota: 'default',
    record: record.name,
    account,
    unit: 'USD',
    limit: '1',
    raised: '0',
    spent: '0.99',
    time: noon,
    resetTime: '2026-04-01T00:00:00.000Z',
  });
  expect(bench.events).toEqual([
    { type: 'Warning', reason: 'BudgetExhausted', message: 'The budget is used up.' },
  ]);
});

it('makes one write of many refusals, and looks at most once in two seconds', async () => {
  const bench = new Bench();
  await Promise.all(Array.from({ length: 500 }, () => bench.refuse()));
  for (let index = 0; index < 500; index++) await bench.refuse();
  expect(bench.writes).toBe(1);
  expect(bench.reads).toBe(1);
  await bench.clock.advance(2_000);
  expect(bench.writes).toBe(1);
  expect(bench.reads).toBe(2);
  await bench.clock.advance(60_000);
  expect(bench.reads).toBe(2);
  expect(bench.events).toHaveLength(1);
});

it('stores the refusal of a run that began just after the operator removed the first one', async () => {
  const bench = new Bench();
  await bench.refuse();
  await bench.clear();
  await bench.refuse();
  expect(await bench.stored()).toBeUndefined();
  await bench.clock.advance(2_000);
  expect(await bench.stored()).toMatchObject({ account });
});

it('refuses nevertheless while the API server is away, and stores it later', async () => {
  const bench = new Bench();
  bench.fails = true;
  await bench.refuse();
  bench.fails = false;
  expect(await bench.stored()).toBeUndefined();
  await bench.clock.advance(2_000);
  expect(await bench.stored()).toMatchObject({ account });
});

it('stores a budget that was raised and is used up again', async () => {
  const bench = new Bench();
  await bench.refuse();
  await bench.clock.advance(2_000);
  await bench.refuse(500_000_000);
  expect(await bench.stored()).toMatchObject({ raised: '0.5' });
});

it('replaces all fields of another budget', async () => {
  const bench = new Bench();
  await bench.refuse();
  await bench.clock.advance(2_000);
  await bench.refuse(0, true);
  const stored = await bench.stored();
  expect(stored).toMatchObject({ account: 'conversation' });
  expect(stored).not.toHaveProperty('quota');
  expect(stored).not.toHaveProperty('resetTime');
});

it('keeps the budget of an open question, which an answer raises', async () => {
  const question: Approval = {
    id: 'budget-1',
    title: 'Continue?',
    kind: 'budget',
    tool: 'budget',
    summary: 'Continue?',
    text: '',
    complete: true,
    options: [],
    requestedTime: noon,
    callHash: 'h',
    agentEpoch: 1,
  };
  const bench = new Bench({ approval: question });
  await bench.refuse();
  await bench.clock.advance(2_000);
  await bench.refuse(0, true);
  expect(await bench.stored()).toMatchObject({ quota: 'default' });
});

it('ends its timers', async () => {
  const bench = new Bench();
  await bench.refuse();
  await bench.clear();
  await bench.refuse();
  bench.exhaustions.close();
  await bench.clock.advance(10_000);
  expect(await bench.stored()).toBeUndefined();
});
