import { conversationQuotas } from '../../../src/resources/conversation-quota.ts';
import { apiVersion } from '../../../src/resources/group.ts';
import { eventually } from '../../support/eventually.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';

const hello = { initial_message: { content: [{ type: 'text', text: 'Hello' }] } };

describe('a quota that refuses', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await TestGateway.start();
    await gateway.client.create(conversationQuotas, {
      apiVersion,
      kind: conversationQuotas.kind,
      metadata: { namespace, name: 'default' },
      spec: { scope: 'Owner', limit: 1, onExceeded: 'Reject', minActiveSeconds: 0, autoResume: 'All' },
    });
    await eventually('the quota to be known', () => Promise.resolve(gateway.caches.quotas.store.size === 1));
  });
  afterAll(() => gateway.stop());

  it('lets starts through up to its limit, and answers 429 with limit and usage to the next', async () => {
    expect((await gateway.post('/api/v1/sandboxes', undefined, { key: gateway.alice })).status).toBe(200);
    const refused = { status: 429, json: { code: 'quota-exceeded', limit: 1, current: 1 }, headers: { 'retry-after': '10' } };
    expect(await gateway.post('/api/v1/sandboxes', undefined, { key: gateway.alice })).toMatchObject(refused);
    expect(await gateway.post('/api/v1/app-conversations', hello, { key: gateway.alice })).toMatchObject(refused);
    expect((await gateway.post('/api/v1/app-conversations', hello, { key: gateway.bob })).status).toBe(200);
  });
});
