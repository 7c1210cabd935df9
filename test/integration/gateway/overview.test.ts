import { leases } from '@conversation-operator/kube/core';
import type { OverviewRecord } from '../../../src/gateway/overview/schemas.ts';
import { namespace, TestGateway } from '../../support/gateway/test-gateway.ts';

const path = '/api/v1/admin/overview';
let gateway: TestGateway;
let root = '';
beforeAll(async () => {
  gateway = await TestGateway.start({ metricsUrl: 'https://metrics.example/d/1' });
  root = await gateway.issueKey('root', 'admin');
});
afterAll(() => gateway.stop());

it.each([
  ['no key', null, 401, 'unauthorized'],
  ['a key with the role user', undefined, 403, 'forbidden'],
] as const)('is closed to %s', async (_what, key, status, code) => {
  await gateway.addSandbox('sbx-of-bob', { owner: 'bob' }).catch(() => undefined);
  const answer = await gateway.get(path, key === undefined ? {} : { key });
  expect([answer.status, answer.json]).toEqual([status, expect.objectContaining({ code })]);
  expect(answer.text).not.toContain('bob');
});

it('answers an admin from the caches, without a call of the API server', async () => {
  await gateway.client.create(leases, {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { namespace, name: 'conversation-operator' },
    spec: {
      holderIdentity: 'op-1',
      leaseDurationSeconds: 15,
      renewTime: new Date().toISOString().replace('Z', '000Z'),
    },
  });
  const { status, json } = await gateway.get(path, { key: root });
  const record = json as OverviewRecord;
  expect(status).toBe(200);
  expect(record).toMatchObject({
    version: '0.0.0-test',
    metrics_url: 'https://metrics.example/d/1',
    leaders: [{ shard: null, holder: 'op-1', is_live: true }],
    templates: { total: 1, items: [{ name: 'default', is_valid: null }] },
  });
  expect(record.caches.every((cache) => cache.is_synced && !cache.is_interrupted)).toBe(true);
});
