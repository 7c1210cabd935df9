import type { KubeClient } from '@conversation-operator/kube/client';
import { systemClock } from '@conversation-operator/base/clock';
import { gatewayIndexers } from '../../src/gateway/lookup/cache.ts';
import { ResourceLookup } from '../../src/gateway/lookup/resource-lookup.ts';
import { StorageCaps } from '../../src/gateway/lookup/storage-caps.ts';
import { overviewOf } from '../../src/gateway/overview/overview.ts';
import type { ApiKey } from '../../src/resources/api-key.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../src/resources/cached-conversation.ts';
import type { ConversationQuota } from '../../src/resources/conversation-quota.ts';
import type { Handover } from '../../src/resources/handover.ts';
import type { CachedUsageRecord } from '../../src/resources/usage-record.ts';
import type { OwnerSettings } from '../../src/resources/owner-settings.ts';
import type { SandboxPool } from '../../src/resources/sandbox-pool.ts';
import type { SandboxTemplate } from '../../src/resources/sandbox-template.ts';
import type { Sandbox } from '../../src/resources/sandbox.ts';
import {
  aConversation,
  admitted,
  aQuota,
  aSandbox,
  aTemplate,
  condition,
} from '../support/builders.ts';
import { TestCache } from '../support/test-cache.ts';
import { percentile, report } from './figure.ts';

/**
 * How long the overview of the service occupies the event loop of a gateway: its processor time,
 * which other processes of the machine do not change.
 */
const [conversations, owners, rounds] = [10_000, 1_000, 40];
const namespace = 'default';
const caches = {
  conversations: new TestCache<CachedConversation>(gatewayIndexers.conversations),
  sandboxes: new TestCache<Sandbox>(gatewayIndexers.sandboxes),
  templates: new TestCache<SandboxTemplate>(),
  quotas: new TestCache<ConversationQuota>(),
  apiKeys: new TestCache<ApiKey>(gatewayIndexers.apiKeys),
  ownerSettings: new TestCache<OwnerSettings>(),
  handovers: new TestCache<Handover>(),
  usageRecords: new TestCache<CachedUsageRecord>(),
};
const caps = new StorageCaps({ caches, namespace, quotas: () => [] });
caps.open();
const statuses = [
  { replicas: 1, conditions: [admitted, condition('Ready', 'True')] },
  { conditions: [condition('Admitted', 'False', 'Idle')] },
  { conditions: [condition('Admitted', 'False', 'WaitingForQuota')] },
];
const put = (index: number) => {
  const name = index.toString(16).padStart(32, '0');
  const owner = `owner-${index % owners}`;
  const sandboxName = `sbx-${name}`;
  const status = statuses[index % statuses.length];
  caches.sandboxes.set(
    aSandbox({ name: sandboxName, owner, ...(status === undefined ? {} : { status }) }),
  );
  const start = { status: 'READY' as const, transitions: [] };
  caches.conversations.set(
    cachedConversation(
      aConversation({
        name,
        spec: { owner },
        status: { start, sandboxName, executionStatus: 'running' },
      }),
    ),
  );
};
for (let index = 0; index < conversations; index++) put(index);
caches.templates.set(aTemplate());
caches.quotas.set(aQuota('default', { limit: 10 }));
const sources = {
  lookup: new ResourceLookup({ client: {} as KubeClient, namespace, caches }),
  caps,
  caches,
  namespace,
  clock: systemClock,
  version: '0',
  metricsUrl: undefined,
  serviceCaches: { pools: new TestCache<SandboxPool>() },
  uptimeSeconds: () => 0,
};
const times: number[] = [];
let bytes = 0;
for (let round = 0; round < rounds; round++) {
  // Every list of the caches is made anew.
  put(round);
  const began = process.threadCpuUsage();
  bytes = JSON.stringify(overviewOf(sources)).length;
  const { user, system } = process.threadCpuUsage(began);
  times.push((user + system) / 1000);
}
const of = `${conversations} conversations of ${owners} owners, a third of them waiting`;
// The first one runs before the compiler has optimised anything.
const [first = NaN, ...others] = times;
report({
  what: `overview: ${of}, 95th percentile`,
  value: percentile(others, 0.95),
  unit: 'ms',
  target: { atMost: 100 },
});
report({ what: 'overview: median', value: percentile(others, 0.5), unit: 'ms' });
report({ what: 'overview: first of a process', value: first, unit: 'ms' });
report({ what: 'overview: bytes of the answer', value: bytes / 1024, unit: 'KiB' });
