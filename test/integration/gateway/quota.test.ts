import {
  conversationQuotas,
  type ConversationQuota,
  type ConversationQuotaSpec,
} from '../../../src/resources/conversation-quota.ts';
import { apiVersion } from '../../../src/resources/group.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import type { SandboxState } from '../../../src/resources/sandbox.ts';
import { admitted, condition } from '../../support/builders.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';

const hello = { initial_message: { content: [{ type: 'text', text: 'Hello' }] } };

let gateway: TestGateway;
beforeEach(async () => {
  gateway = await TestGateway.start();
});
afterEach(() => gateway.stop());

async function addQuota(
  name: string,
  spec: Partial<ConversationQuotaSpec>,
  status?: ConversationQuota['status'],
): Promise<void> {
  const created = await gateway.client.create(conversationQuotas, {
    apiVersion,
    kind: conversationQuotas.kind,
    metadata: { namespace, name },
    spec: {
      scope: 'Owner',
      limit: 1,
      onExceeded: 'PauseOldest',
      minActiveSeconds: 0,
      autoResume: 'All',
      ...spec,
    },
  });
  const updated =
    status === undefined
      ? created
      : await gateway.client.mergePatch(
          conversationQuotas,
          namespace,
          name,
          { status },
          { subresource: 'status' },
        );
  await gateway.seen(gateway.caches.quotas, updated);
}

const runningSince = (activeSince: string): SandboxState => ({
  replicas: 1,
  activeSinceTime: activeSince,
  conditions: [admitted, condition('Ready', 'True', 'Running')],
});
const pausedByQuota: SandboxState = {
  replicas: 0,
  conditions: [{ ...condition('Admitted', 'False', 'Quota'), observedGeneration: 1 }],
};
const quotaOf = async (key = gateway.alice) => (await gateway.get('/api/v1/quota', { key })).json;

describe('a quota that refuses', () => {
  const refused = {
    status: 429,
    json: { code: 'quota-exceeded', limit: 1, current: 1 },
    headers: { 'retry-after': '10' },
  };

  it('lets starts through up to its limit, and answers 429 with limit and usage to the next', async () => {
    await addQuota('default', { onExceeded: 'Reject' });
    expect((await gateway.post('/api/v1/sandboxes')).status).toBe(200);
    expect(await gateway.post('/api/v1/sandboxes')).toMatchObject(refused);
    expect(await gateway.post('/api/v1/app-conversations', hello)).toMatchObject(refused);
    expect(
      (await gateway.post('/api/v1/app-conversations', hello, { key: gateway.bob })).status,
    ).toBe(200);
  });

  it('counts a start that has no sandbox yet', async () => {
    await addQuota('default', { onExceeded: 'Reject' });
    expect((await gateway.post('/api/v1/app-conversations', hello)).status).toBe(200);
    expect(await gateway.post('/api/v1/app-conversations', hello)).toMatchObject(refused);
  });

  it('counts the starts of all owners where it is for all', async () => {
    await addQuota('all', { scope: 'Namespace', onExceeded: 'Reject' });
    expect(
      (await gateway.post('/api/v1/app-conversations', hello, { key: gateway.bob })).status,
    ).toBe(200);
    expect(await gateway.post('/api/v1/app-conversations', hello)).toMatchObject(refused);
  });

  it('counts no warm sandbox of a pool', async () => {
    await addQuota('all', { scope: 'Namespace', onExceeded: 'Reject' });
    await gateway.addSandbox('spare', {
      owner: '',
      poolName: 'pool',
      status: runningSince('2026-03-01T10:00:00Z'),
    });
    expect(await quotaOf()).toMatchObject({
      quotas: [{ active: 0 }],
      next_start: { outcome: 'admitted' },
    });
    expect((await gateway.post('/api/v1/app-conversations', hello)).status).toBe(200);
  });

  it('does not count what is paused and whose pod still ends', async () => {
    await addQuota('default', { onExceeded: 'Reject' });
    await gateway.addSandbox('sbx-1', {
      replicas: 0,
      status: runningSince('2026-03-01T10:00:00Z'),
    });
    expect((await gateway.post('/api/v1/sandboxes')).status).toBe(200);
  });
});

describe('GET /api/v1/quota', () => {
  it('says that nothing limits where there is no quota', async () => {
    await gateway.addSandbox('sbx-1', { status: runningSince('2026-03-01T10:00:00Z') });
    expect(await quotaOf()).toEqual({
      active: 1,
      waiting: 0,
      queue: [],
      paused: 0,
      quotas: [],
      stored: { conversations: 0, stored_bytes: 0, sandboxes: 1 },
      caps: [],
      next_start: {
        outcome: 'admitted',
        reason: 'No quota limits the start.',
        quota: null,
        pauses: [],
        pauses_other_owner: false,
        not_before: null,
      },
    });
  });

  it('needs a key', async () => {
    expect((await gateway.get('/api/v1/quota', { key: null })).status).toBe(401);
  });

  it('says how much room an owner has, whatever others do', async () => {
    await addQuota('default', { limit: 2 });
    await addQuota('for-bob', { owner: 'bob', limit: 5 });
    await gateway.addSandbox('sbx-1', { status: runningSince('2026-03-01T10:00:00Z') });
    await gateway.addSandbox('sbx-2', { status: pausedByQuota });
    for (const name of ['sbx-3', 'sbx-4', 'sbx-5'])
      await gateway.addSandbox(name, {
        owner: 'bob',
        status: runningSince('2026-03-01T10:00:00Z'),
      });
    expect(await quotaOf()).toMatchObject({
      active: 1,
      waiting: 0,
      paused: 1,
      quotas: [
        {
          name: 'default',
          scope: 'Owner',
          limit: 2,
          active: 1,
          on_exceeded: 'PauseOldest',
          auto_resume: 'All',
        },
      ],
      next_start: { outcome: 'admitted', reason: 'There is room.', quota: 'default', pauses: [] },
    });
    expect(await quotaOf(gateway.bob)).toMatchObject({
      active: 3,
      paused: 0,
      quotas: [{ name: 'for-bob', limit: 5, active: 3 }],
    });
  });

  it('names what would be paused, with the conversations in it', async () => {
    await addQuota('default', { limit: 2 });
    const [older, newer] = [newUuid(1), newUuid(2)];
    for (const [name, conversation, since] of [
      ['sbx-1', newer, '2026-03-01T11:00:00Z'],
      ['sbx-2', older, '2026-03-01T10:00:00Z'],
    ] as const) {
      await gateway.addSandbox(name, { status: runningSince(since) });
      await gateway.addConversation(conversation, {
        status: { sandboxName: name, start: { status: 'READY', transitions: [] } },
      });
    }
    expect(await quotaOf()).toMatchObject({
      active: 2,
      next_start: {
        outcome: 'pauses',
        quota: 'default',
        pauses_other_owner: false,
        not_before: null,
        reason:
          'The start would pause sandbox sbx-2, the oldest that runs: at most 2 of yours may be active at once.',
        pauses: [{ sandbox_id: 'sbx-2', conversation_ids: [older] }],
      },
    });
  });

  it('names the one that comes after those who wait already, be it without a sandbox', async () => {
    await addQuota('default', { limit: 2 });
    await gateway.addSandbox('sbx-1', { status: runningSince('2026-03-01T10:00:00Z') });
    await gateway.addSandbox('sbx-2', { status: runningSince('2026-03-01T11:00:00Z') });
    await gateway.post('/api/v1/app-conversations', hello);
    expect(await quotaOf()).toMatchObject({
      waiting: 1,
      next_start: { outcome: 'pauses', pauses: [{ sandbox_id: 'sbx-2' }] },
    });
  });

  it('names the sandboxes that wait in the order of admission', async () => {
    await addQuota('default', { limit: 1, onExceeded: 'Queue' });
    await gateway.addSandbox('sbx-0', { status: runningSince('2026-03-01T10:00:00Z') });
    for (const [name, minute] of [
      ['sbx-1', '03'],
      ['sbx-2', '01'],
      ['sbx-3', '02'],
    ] as const)
      await gateway.addSandbox(name, {
        status: {
          conditions: [condition('Admitted', 'False', 'WaitingForQuota')],
          waitingSinceTime: `2026-03-01T11:${minute}:00Z`,
        },
      });
    expect(await quotaOf()).toMatchObject({ waiting: 3, queue: ['sbx-2', 'sbx-3', 'sbx-1'] });
  });

  it('says until when what would be paused is safe', async () => {
    await addQuota('default', { minActiveSeconds: 3600 });
    const since = new Date(Math.floor(Date.now() / 1000) * 1000);
    await gateway.addSandbox('sbx-1', { status: runningSince(since.toISOString()) });
    const end = new Date(since.getTime() + 3_600_000).toISOString().replace('Z', '000Z');
    expect(await quotaOf()).toMatchObject({
      next_start: { outcome: 'pauses', pauses: [{ sandbox_id: 'sbx-1' }], not_before: end },
    });
  });

  it.each<[string, Partial<ConversationQuotaSpec>, SandboxState, object]>([
    [
      'waits under Queue',
      { onExceeded: 'Queue' },
      runningSince('2026-03-01T10:00:00Z'),
      { outcome: 'waits', quota: 'default' },
    ],
    [
      'waits for what still starts',
      {},
      { conditions: [admitted] },
      {
        outcome: 'waits',
        reason:
          'The start would wait: at most 1 of yours may be active at once, and none of them can be paused now.',
      },
    ],
    [
      'waits for a slot that is getting free',
      {},
      { ...pausedByQuota, replicas: 1 },
      { outcome: 'waits', reason: 'The start would wait: a slot is getting free.' },
    ],
    [
      'is refused under Reject',
      { onExceeded: 'Reject' },
      runningSince('2026-03-01T10:00:00Z'),
      {
        outcome: 'rejected',
        reason: 'The start would be refused: at most 1 of yours may be active at once, and 1 are.',
      },
    ],
    ['never starts under a limit of 0', { limit: 0 }, pausedByQuota, { outcome: 'waits' }],
  ])('says that a start %s', async (_sentence, quota, status, expected) => {
    await addQuota('default', quota);
    await gateway.addSandbox('sbx-1', { status });
    expect(await quotaOf()).toMatchObject({ next_start: { ...expected, pauses: [] } });
  });

  describe('under a cap on all owners', () => {
    it("says that another owner's sandbox would be paused, and not which", async () => {
      await addQuota('default', { limit: 10 });
      await addQuota(
        'all',
        { scope: 'Namespace', limit: 2 },
        { active: 2, waiting: 0, paused: 0, nextToPause: 'sbx-bobs' },
      );
      await gateway.addSandbox('sbx-bobs', {
        owner: 'bob',
        status: runningSince('2026-03-01T10:00:00Z'),
      });
      await gateway.addSandbox('sbx-1', { status: runningSince('2026-03-01T11:00:00Z') });
      const json = await quotaOf();
      expect(json).toMatchObject({
        active: 1,
        quotas: [
          { name: 'all', scope: 'Namespace', limit: 2, active: 2 },
          { name: 'default', scope: 'Owner', limit: 10, active: 1 },
        ],
        next_start: {
          outcome: 'pauses',
          quota: 'all',
          pauses: [],
          pauses_other_owner: true,
          reason:
            'The start would pause a sandbox of another owner, the oldest that runs: at most 2 of all owners may be active at once.',
        },
      });
      expect(JSON.stringify(json)).not.toContain('bob');
      expect(await quotaOf(gateway.bob)).toMatchObject({
        next_start: {
          outcome: 'pauses',
          quota: 'all',
          pauses: [{ sandbox_id: 'sbx-bobs' }],
          pauses_other_owner: false,
        },
      });
    });

    it('pauses an own one where the own limit is reached too', async () => {
      await addQuota('default', { limit: 1 });
      await addQuota(
        'all',
        { scope: 'Namespace', limit: 2 },
        { active: 2, waiting: 0, paused: 0, nextToPause: 'sbx-bobs' },
      );
      await gateway.addSandbox('sbx-bobs', {
        owner: 'bob',
        status: runningSince('2026-03-01T10:00:00Z'),
      });
      await gateway.addSandbox('sbx-1', { status: runningSince('2026-03-01T11:00:00Z') });
      expect(await quotaOf()).toMatchObject({
        next_start: {
          quota: 'default',
          pauses: [{ sandbox_id: 'sbx-1' }],
          pauses_other_owner: false,
        },
      });
    });

    it('counts itself until the operator has, and waits under Queue', async () => {
      await addQuota('all', { scope: 'Namespace', onExceeded: 'Queue' });
      expect(await quotaOf()).toMatchObject({ next_start: { outcome: 'admitted', quota: 'all' } });
      await gateway.addSandbox('sbx-bobs', {
        owner: 'bob',
        status: runningSince('2026-03-01T10:00:00Z'),
      });
      expect(await quotaOf()).toMatchObject({
        active: 0,
        quotas: [{ active: 1 }],
        next_start: { outcome: 'waits', quota: 'all' },
      });
    });

    it('is refused by it under Reject', async () => {
      await addQuota(
        'all',
        { scope: 'Namespace', onExceeded: 'Reject' },
        { active: 1, waiting: 0, paused: 0 },
      );
      await gateway.addSandbox('sbx-bobs', {
        owner: 'bob',
        status: runningSince('2026-03-01T10:00:00Z'),
      });
      expect(await quotaOf()).toMatchObject({
        next_start: {
          outcome: 'rejected',
          reason:
            'The start would be refused: at most 1 of all owners may be active at once, and 1 are.',
        },
      });
    });
  });
});
