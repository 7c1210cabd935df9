import { AdmissionReconciler } from '../../../src/controllers/admission/reconcile.ts';
import { bySandbox, byTemplate } from '../../../src/controllers/caches.ts';
import { PodCreations } from '../../../src/controllers/sandbox/pod-creations.ts';
import type { StatusUpdate } from '../../../src/kube/client.ts';
import { IndexedStore } from '../../../src/kube/store.ts';
import { silentLogger } from '../../../src/observability/logger.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';
import type { CachedConversation } from '../../../src/resources/cached-conversation.ts';
import { conversationQuotas, type ConversationQuota } from '../../../src/resources/conversation-quota.ts';
import type { Pod } from '../../../src/resources/core.ts';
import type { KubeObject, ResourceDefinition } from '../../../src/resources/object.ts';
import type { SandboxTemplate } from '../../../src/resources/sandbox-template.ts';
import { sandboxes, type Sandbox } from '../../../src/resources/sandbox.ts';
import { aQuota, aSandbox } from '../../support/builders.ts';
import { FakeKubeClient } from '../../support/fake-kube-client.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

/** The admission controller on an API server in memory. A test shows it what a watch would. */
async function start(quotas: readonly ConversationQuota[]) {
  const client = new FakeKubeClient();
  const clock = new VirtualClock();
  const told: string[] = [];
  const stores = {
    sandboxes: new IndexedStore<Sandbox>({ [byTemplate]: () => [] }),
    conversations: new IndexedStore<CachedConversation>({ [bySandbox]: () => [] }),
    templates: new IndexedStore<SandboxTemplate>(),
    quotas: new IndexedStore<ConversationQuota>(),
    pods: new IndexedStore<Pod>(),
  };
  const admission = new AdmissionReconciler({
    ...{ client, stores, clock, logger: silentLogger, metrics: createMetrics() },
    podCreations: new PodCreations(clock),
    events: { record: () => undefined },
    enqueue: () => undefined,
    enqueueQuota: ({ name }) => told.push(name),
  });
  for (const { metadata, ...quota } of quotas) {
    const stored = await client.create(conversationQuotas, { ...quota, metadata: { name: metadata.name, namespace: 'default' } });
    stores.quotas.set(stored);
    admission.observeQuota(stored);
  }
  const create = async (name: string): Promise<Sandbox> => {
    const { metadata: _metadata, ...sandbox } = aSandbox({ name });
    const stored = await client.create(sandboxes, { ...sandbox, metadata: { name, namespace: 'default' } });
    admission.observe(stored);
    return stored;
  };
  const decide = () => admission.reconcile({ namespace: 'default', name: '' }, new AbortController().signal);
  const takenBy = (owner: string) => admission.domain('default').group(owner)?.taken ?? 0;
  return { client, admission, told, create, decide, takenBy };
}

it('does not count a sandbox whose deletion was seen before the answer to its admission came', async () => {
  const { client, admission, create, decide, takenBy } = await start([aQuota('default', { limit: 1 })]);
  const sandbox = await create('sbx-1');
  const updateStatus = client.updateStatus.bind(client);
  client.updateStatus = async <T extends KubeObject>(resource: ResourceDefinition<T>, object: StatusUpdate<T>) => {
    const answer = await updateStatus(resource, object);
    await client.delete(sandboxes, 'default', 'sbx-1');
    admission.forget(sandbox);
    return answer;
  };
  await decide();
  client.updateStatus = updateStatus;
  await decide();
  expect(takenBy('alice')).toBe(0);
  await create('sbx-2');
  await decide();
  expect((await client.get(sandboxes, 'default', 'sbx-2')).status?.conditions).toMatchObject([{ type: 'Admitted', status: 'True' }]);
});

it('has the quota looked at that another one overrules', async () => {
  const { told, create } = await start([aQuota('loose', { limit: 5 }), aQuota('strict', { limit: 1 })]);
  told.length = 0;
  await create('sbx-1');
  expect(new Set(told)).toEqual(new Set(['loose', 'strict']));
});
