import {
  conversationQuotas,
  type ConversationQuotaSpec,
} from '../../../../../src/resources/conversation-quota.ts';
import { conversations } from '../../../../../src/resources/conversation.ts';
import type { BudgetExhaustion } from '../../../../../src/resources/conversation-status.ts';
import {
  newUsageRecord,
  usageRecordNameOf,
  usageRecords,
  type UsageRecordStatus,
} from '../../../../../src/resources/usage-record.ts';
import { aQuota, aStoredConversation, later } from '../../../../support/builders.ts';
import { ConversationScene } from '../../../../support/conversation-scene.ts';

type BudgetSpec = NonNullable<ConversationQuotaSpec['budget']>;

const namespace = 'default';
const queueing: BudgetSpec = {
  amount: 1,
  currency: 'USD',
  period: 'Month',
  timeZone: 'UTC',
  onExceeded: 'Queue',
  maxRaise: 0,
};
const owners = { owner: 'alice', month: '2026-03' };
const everybody = { month: '2026-03' };
const spentOf = (spent: string, raised = '0'): UsageRecordStatus => ({
  accounts: [{ key: 'default/Month/2026-03-01', unit: 'USD', spent, raised }],
});
const refusedCall: BudgetExhaustion = {
  quota: 'default',
  record: usageRecordNameOf(owners),
  account: 'default/Month/2026-03-01',
  unit: 'USD',
  limit: '1',
  raised: '0',
  spent: '0.95',
  time: later(-60_000),
};

interface Wish {
  readonly budget?: Partial<BudgetSpec>;
  readonly quota?: Partial<ConversationQuotaSpec>;
  readonly status?: UsageRecordStatus;
  readonly subject?: typeof owners | typeof everybody;
  /** The owner of another conversation, of which a call was refused. */
  readonly refusedTo?: string;
}

/** An owner with a new conversation, and a budget. */
class World {
  readonly scene = new ConversationScene();
  readonly name = '1'.repeat(32);

  constructor({ budget, quota, status, subject = owners, refusedTo }: Wish) {
    const { client } = this.scene;
    const spec = { limit: 10, budget: { ...queueing, ...budget }, ...quota };
    client.put(conversationQuotas, aQuota('default', spec));
    this.put(status ?? spentOf('1'), subject);
    client.put(conversations, aStoredConversation({ name: this.name }));
    const other = aStoredConversation({
      name: '2'.repeat(32),
      spec: { owner: refusedTo ?? 'alice' },
      status: {
        start: { status: 'READY', transitions: [] },
        ...(refusedTo === undefined
          ? {}
          : { budgetExhaustion: { ...refusedCall, record: usageRecordNameOf(subject) } }),
      },
    });
    client.put(conversations, other);
  }

  put(status: UsageRecordStatus, subject: typeof owners | typeof everybody = owners): void {
    const record = newUsageRecord(namespace, subject);
    const metadata = { ...record.metadata, uid: 'record', resourceVersion: '1', generation: 1 };
    const creationTimestamp = later(0);
    this.scene.client.put(usageRecords, {
      ...record,
      metadata: { ...metadata, creationTimestamp },
      status,
    });
  }

  async reconcile() {
    await this.scene.refreshBudgets();
    const againAfterMs = await this.scene.reconcile(this.name);
    const { status } = await this.scene.conversation(this.name);
    const { start, sandboxStatusReason } = status ?? {};
    return {
      againAfterMs,
      start: start?.status,
      code: start?.errorCode,
      reason: sandboxStatusReason,
      message: start?.error,
      deadline: start?.deadline,
      sandboxes: await this.scene.sandboxes(),
    };
  }
}

const held = { start: 'WORKING', code: 'WaitingForBudget', reason: 'WaitingForBudget' };
const goesOn = { start: 'WAITING_FOR_SANDBOX', code: undefined };

describe('the start of an owner who has used up a budget with the policy Queue', () => {
  it('waits without a sandbox and without a deadline, and says what for', async () => {
    const world = new World({});
    expect(await world.reconcile()).toEqual({
      ...held,
      againAfterMs: 60_000,
      deadline: undefined,
      sandboxes: [],
      message:
        'Waiting for the budget, which starts again at 2026-04-01 00:00 UTC: the $1 a month of the quota default are used up. An administrator can raise it.',
    });
    expect(world.scene.events.map(({ reason }) => reason)).toContain('WaitingForBudget');
  });

  it.each<[string, Wish]>([
    ['of all owners', { quota: { scope: 'Namespace' }, subject: everybody, status: spentOf('1') }],
    ['with a rest that is too little for a call', { status: spentOf('0.95'), refusedTo: 'alice' }],
  ])('waits for one %s', async (_name, wish) => {
    expect(await new World(wish).reconcile()).toMatchObject({ ...held, sandboxes: [] });
  });

  it.each<[string, Wish]>([
    [
      'has the policy Reject, by which the gateway has let it pass',
      { budget: { onExceeded: 'Reject' } },
    ],
    ['is not spent', { status: spentOf('0.99') }],
    ['was raised', { status: spentOf('1', '0.5') }],
    ['has refused a large call, and has much left', { status: spentOf('0.4'), refusedTo: 'alice' }],
    [
      'has refused a call of somebody else',
      {
        quota: { scope: 'Namespace' },
        subject: everybody,
        status: spentOf('0.95'),
        refusedTo: 'bob',
      },
    ],
    [
      'was raised after it had refused a call',
      { status: spentOf('1.2', '0.3'), refusedTo: 'alice' },
    ],
    ['is of another owner', { quota: { owner: 'bob' } }],
  ])('does not wait where the budget %s', async (_name, wish) => {
    expect(await new World(wish).reconcile()).toMatchObject(goesOn);
  });

  it.each<[string, (world: World) => unknown]>([
    ['the next period begins', ({ scene }) => scene.clock.advance(31 * 24 * 3_600_000)],
    ['somebody raises the budget', (world) => world.put(spentOf('1', '0.5'))],
    [
      'its amount grows',
      ({ scene }) =>
        scene.client.put(
          conversationQuotas,
          aQuota('default', { limit: 10, budget: { ...queueing, amount: 2 } }),
        ),
    ],
    [
      'its policy becomes Reject',
      ({ scene }) =>
        scene.client.put(
          conversationQuotas,
          aQuota('default', { limit: 10, budget: { ...queueing, onExceeded: 'Reject' } }),
        ),
    ],
    [
      'the quota is deleted',
      ({ scene }) => scene.client.delete(conversationQuotas, namespace, 'default'),
    ],
  ])('goes on by itself when %s', async (_name, change) => {
    const world = new World({});
    expect(await world.reconcile()).toMatchObject(held);
    await change(world);
    const after = await world.reconcile();
    expect(after).toMatchObject({ ...goesOn, message: undefined });
    expect(after.reason).not.toBe('WaitingForBudget');
    expect(after.sandboxes).toHaveLength(1);
  });

  it('is looked at when the period ends, if that is soon', async () => {
    const world = new World({});
    await world.scene.clock.advance(Date.parse('2026-03-31T23:59:30Z') - world.scene.clock.now());
    expect(await world.reconcile()).toMatchObject({ ...held, againAfterMs: 30_000 });
  });

  it('goes on if an attempt before has made its sandbox', async () => {
    const world = new World({ status: spentOf('0') });
    const { client } = world.scene;
    const update = client.updateStatus.bind(client);
    const patch = client.mergePatch.bind(client);
    const lose = () => Promise.reject(new Error('away'));
    Object.assign(client, { updateStatus: lose, mergePatch: lose });
    await expect(world.reconcile()).rejects.toThrow('away');
    Object.assign(client, { updateStatus: update, mergePatch: patch });
    expect(await world.scene.sandboxes()).toHaveLength(1);
    world.put(spentOf('1'));
    expect(await world.reconcile()).toMatchObject(goesOn);
  });

  it('is written once while it waits', async () => {
    const world = new World({});
    await world.reconcile();
    const before = (await world.scene.conversation(world.name)).metadata.resourceVersion;
    world.put(spentOf('1.01'));
    expect(await world.reconcile()).toMatchObject(held);
    const { metadata } = await world.scene.conversation(world.name);
    expect(metadata.resourceVersion).toBe(before);
  });
});
