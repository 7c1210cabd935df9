import { ApiError } from '@conversation-operator/kube/errors';
import { conversationQuotas } from '../../../../../src/resources/conversation-quota.ts';
import { conversations } from '../../../../../src/resources/conversation.ts';
import type { ConversationStatus } from '../../../../../src/resources/conversation-status.ts';
import { sandboxes } from '../../../../../src/resources/sandbox.ts';
import {
  newUsageRecord,
  usageRecordNameOf,
  usageRecords,
} from '../../../../../src/resources/usage-record.ts';
import {
  aQuota,
  aSandbox,
  aStoredConversation,
  condition,
  noon,
} from '../../../../support/builders.ts';
import { ConversationScene } from '../../../../support/conversation-scene.ts';

const name = aStoredConversation().metadata.name;
const subject = { owner: 'alice', month: '2026-03' };
const record = usageRecordNameOf(subject);
const account = 'default/Month/2026-03-01';
const sandbox = aSandbox({
  status: {
    agentEpoch: 1,
    lastContainerID: 'process://1',
    conditions: [condition('Admitted', 'False', 'BudgetExhausted')],
  },
});
const exhausted: ConversationStatus = {
  start: { status: 'READY', transitions: [] },
  sandboxName: sandbox.metadata.name,
  sandboxUID: sandbox.metadata.uid,
  executionStatus: 'error',
  agentEpoch: 1,
  budgetExhaustion: {
    quota: 'default',
    record,
    account,
    unit: 'USD',
    limit: '1',
    raised: '0',
    spent: '0.99',
    time: noon,
    resetTime: '2026-04-01T00:00:00.000Z',
  },
};

class Bench extends ConversationScene {
  constructor({ maxRaise = 0.5, maxCost }: { maxRaise?: number; maxCost?: number } = {}) {
    super();
    this.client.put(sandboxes, sandbox);
    const own =
      maxCost === undefined ? {} : { budget: { amount: maxCost, currency: 'USD' as const } };
    const ofConversation = {
      record: 'usage-own',
      account: 'conversation',
      unit: 'USD' as const,
      limit: String(maxCost),
      raised: '0',
      spent: '0.99',
      time: noon,
    };
    this.client.put(
      conversations,
      aStoredConversation({
        spec: own,
        status:
          maxCost === undefined ? exhausted : { ...exhausted, budgetExhaustion: ofConversation },
      }),
    );
    this.client.put(
      conversationQuotas,
      aQuota('default', {
        budget: {
          amount: 1,
          currency: 'USD',
          period: 'Month',
          timeZone: 'UTC',
          onExceeded: 'Reject',
          maxRaise,
        },
      }),
    );
    const created = newUsageRecord('default', subject);
    this.client.put(usageRecords, {
      ...created,
      metadata: {
        ...created.metadata,
        uid: 'uid-of-the-record',
        resourceVersion: '1',
        generation: 1,
        creationTimestamp: noon,
      },
      status: { accounts: [{ key: account, unit: 'USD', spent: '0.99' }] },
    } as never);
  }

  /** Reconciles with fresh caches, as often as a conflict has it repeated. */
  async follow(): Promise<void> {
    for (let attempt = 0; attempt < 3; attempt++) {
      await this.refreshBudgets();
      try {
        await this.reconcile(name);
        return;
      } catch (error) {
        if (!(error instanceof ApiError) || error.status !== 409) throw error;
      }
    }
  }

  async asked(): Promise<string> {
    await this.follow();
    const { status } = await this.conversation(name);
    const id = status?.approval?.id;
    if (id === undefined) throw new Error('nothing is asked');
    return id;
  }

  async answer(id: string, decision: 'approve' | 'reject'): Promise<void> {
    const patch = { spec: { approvals: [{ id, decision, by: 'alice' }] } };
    await this.client.mergePatch(conversations, 'default', name, patch);
  }

  async account() {
    const { status } = await this.client.get(usageRecords, 'default', record);
    return status?.accounts?.find(({ key }) => key === account);
  }

  sandbox() {
    return this.client.get(sandboxes, 'default', sandbox.metadata.name);
  }
}

it('asks once the run has stopped, and leaves the sandbox alone until there is an answer', async () => {
  const bench = new Bench();
  const id = await bench.asked();
  await bench.clock.advance(60_000);
  expect(await bench.asked()).toBe(id);
  const { status } = await bench.conversation(name);
  expect(status).toMatchObject({
    executionStatus: 'paused',
    interruption: { reason: 'BudgetExhausted' },
    sandboxStatus: 'PAUSED',
    sandboxStatusReason: 'BudgetExhausted',
    approval: { kind: 'budget', raise: { amount: '0.5', decidedBy: 'Owner' } },
  });
  expect(status?.conditions).toContainEqual(
    expect.objectContaining({
      type: 'WaitingForApproval',
      status: 'True',
      reason: 'Budget',
      message: status?.approval?.summary,
    }),
  );
  expect((await bench.sandbox()).metadata).not.toHaveProperty('annotations');
});

it('raises the budget for an approval, then requests the sandbox and its run', async () => {
  const bench = new Bench();
  const id = await bench.asked();
  await bench.answer(id, 'approve');
  await bench.follow();
  expect(await bench.account()).toMatchObject({
    raised: '0.5',
    raises: [{ id, amount: '0.5', by: 'alice', time: noon }],
  });
  const { metadata, spec } = await bench.sandbox();
  expect(spec.replicas).toBe(1);
  expect(metadata.annotations).toEqual({
    'conversation-operator.dev/resume-requested-at': noon,
    'conversation-operator.dev/run-requested-in-generation': '1',
  });
  const { status } = await bench.conversation(name);
  expect(status).toMatchObject({
    interruption: { reason: 'BudgetExhausted' },
    closedApprovals: [{ id, outcome: 'Approved', option: 'continue' }],
  });
  expect(status).not.toHaveProperty('budgetExhaustion');
  expect(bench.events.map(({ reason }) => reason)).toEqual([
    'RunInterrupted',
    'ApprovalRequested',
    'BudgetRaised',
    'ApprovalAnswered',
  ]);
});

it.each(['usagerecords', 'sandboxes', 'conversations'])(
  'counts the raise once where the answer of the API server to the write of %s is lost',
  async (plural) => {
    const bench = new Bench();
    const id = await bench.asked();
    await bench.answer(id, 'approve');
    const lost = new Error('the connection was lost');
    const { client } = bench;
    const update = client.updateStatus.bind(client);
    const patch = client.mergePatch.bind(client);
    let isLost = false;
    const losing = async <T>(of: string, write: Promise<T>): Promise<T> => {
      const written = await write;
      if (of !== plural || isLost) return written;
      isLost = true;
      throw lost;
    };
    client.updateStatus = (resource, object) => losing(resource.plural, update(resource, object));
    client.mergePatch = (resource, ...call) => losing(resource.plural, patch(resource, ...call));
    await expect(bench.follow()).rejects.toBe(lost);
    await bench.follow();
    expect(await bench.account()).toMatchObject({ raised: '0.5', raises: [{ id }] });
    expect((await bench.conversation(name)).status).not.toHaveProperty('budgetExhaustion');
  },
);

it('raises no more than maxRaise when two conversations are answered at once', async () => {
  const bench = new Bench();
  const id = await bench.asked();
  const raises = [{ id: 'of another', amount: '0.5', time: noon }];
  const accounts = [{ ...(await bench.account()), raised: '0.5', raises }];
  await bench.client.mergePatch(
    usageRecords,
    'default',
    record,
    { status: { accounts } },
    { subresource: 'status' },
  );
  await bench.answer(id, 'approve');
  await bench.follow();
  expect(await bench.account()).toMatchObject({ raised: '0.5', raises });
  expect((await bench.conversation(name)).status).toMatchObject({
    lostAnswer: id,
    closedApprovals: [
      { id, outcome: 'Withdrawn', message: expect.stringContaining('maxRaise') as string },
    ],
  });
  // The other raise has made room, so that nothing is asked again.
  await bench.follow();
  const after = (await bench.conversation(name)).status;
  expect(after).not.toHaveProperty('approval');
  expect(after).not.toHaveProperty('budgetExhaustion');
});

it('stays paused after a rejection, and asks nothing again by itself', async () => {
  const bench = new Bench();
  const id = await bench.asked();
  await bench.answer(id, 'reject');
  await bench.follow();
  await bench.clock.advance(3_600_000);
  await bench.follow();
  const { status } = await bench.conversation(name);
  expect(status).toMatchObject({
    executionStatus: 'paused',
    interruption: { reason: 'User' },
    closedApprovals: [{ id, outcome: 'Rejected' }],
  });
  expect(status).not.toHaveProperty('approval');
  expect(await bench.account()).not.toHaveProperty('raises');
  expect((await bench.sandbox()).metadata).not.toHaveProperty('annotations');
});

it('looks again when the period is over, and then withdraws the question', async () => {
  const bench = new Bench();
  await bench.asked();
  bench.clock.jumpWallClock(Date.parse('2026-03-31T23:59:50Z') - bench.clock.now());
  await bench.refreshBudgets();
  expect(await bench.reconcile(name)).toBe(10_000);
  bench.clock.jumpWallClock(10_000);
  await bench.follow();
  const { status } = await bench.conversation(name);
  expect(status).not.toHaveProperty('approval');
  expect(status).toMatchObject({
    interruption: { reason: 'BudgetExhausted' },
    closedApprovals: [{ outcome: 'Withdrawn' }],
  });
});

it('raises the budget of the conversation itself to an absolute amount', async () => {
  const bench = new Bench({ maxCost: 2 });
  const id = await bench.asked();
  await bench.answer(id, 'approve');
  await bench.follow();
  await bench.follow();
  const { spec, status } = await bench.conversation(name);
  expect(spec.budget).toEqual({ amount: 4, currency: 'USD' });
  expect(status).toMatchObject({ closedApprovals: [{ id, outcome: 'Approved' }] });
  // The patch of the conversation has a conflict repeat the reconcile, and so its steps.
  expect(bench.events.filter(({ reason }) => reason === 'BudgetRaised')).toEqual([
    expect.objectContaining({ message: 'The budget was raised by $2.' }),
  ]);
});

it('lets an admin decide where the owner may add nothing, and records that', async () => {
  const bench = new Bench({ maxRaise: 0 });
  const id = await bench.asked();
  expect((await bench.conversation(name)).status?.approval).toMatchObject({
    raise: { amount: '1', decidedBy: 'Admin' },
    summary: expect.stringContaining('An administrator has to allow this.') as string,
  });
  await bench.answer(id, 'approve');
  await bench.follow();
  expect(await bench.account()).toMatchObject({ raised: '1', raises: [{ id, admin: true }] });
});
