import { AdmissionCache } from '../../../../src/controllers/admission/cache.ts';
import { AdmissionReads } from '../../../../src/controllers/admission/reads.ts';
import { sandboxIndexers } from '../../../../src/controllers/caches.ts';
import { observe } from '../../../../src/controllers/controller-spec.ts';
import { PodCreations } from '../../../../src/controllers/sandbox/pod-creations.ts';
import type { Request } from '@conversation-operator/kube/controller';
import { IndexedStore } from '@conversation-operator/kube/store';
import { Reflector } from '@conversation-operator/kube/reflector';
import { silentLogger } from '@conversation-operator/base/logger';
import { createMetrics } from '../../../../src/observability/metrics.ts';
import type { CachedConversation } from '../../../../src/resources/cached-conversation.ts';
import type { CachedPod } from '../../../../src/resources/cached-core.ts';
import type { ConversationQuota } from '../../../../src/resources/conversation-quota.ts';
import type { SandboxTemplate } from '../../../../src/resources/sandbox-template.ts';
import { sandboxes, type Sandbox } from '../../../../src/resources/sandbox.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { aSandbox, admitted } from '../../../support/builders.ts';

/** Turns of the event loop between the last list of a new leader and the deletion. */
const turns = Array.from({ length: 40 }, (_, index) => index);

it.each(turns)(
  'a sandbox that is deleted %i turns after the lists of a new leader leaves no slot behind',
  async (turn) => {
    const clock = new VirtualClock();
    const client = new FakeKubeClient();
    const sandbox = aSandbox({ name: 'gone', status: { replicas: 1, conditions: [admitted] } });
    client.put(sandboxes, sandbox);
    const reflector = new Reflector<Sandbox>({
      client,
      resource: sandboxes,
      clock,
      random: () => 0,
      logger: silentLogger,
      indexers: sandboxIndexers,
    });
    reflector.start();
    await clock.run(reflector.synced());
    const requests: string[] = [];
    const stores = {
      sandboxes: reflector.store,
      conversations: new IndexedStore<CachedConversation>({ sandbox: () => [] }),
      templates: new IndexedStore<SandboxTemplate>(),
      quotas: new IndexedStore<ConversationQuota>(),
      pods: new IndexedStore<CachedPod>(),
    };
    const channels = {
      admission: { enqueue: () => undefined },
      lookup: { enqueue: ({ name }: Request) => void requests.push(name) },
      quota: { enqueue: () => undefined },
    };
    const cache = new AdmissionCache({ stores, channels, clock, metrics: createMetrics() });
    const reads = new AdmissionReads({
      client,
      stores,
      channels,
      cache,
      clock,
      logger: silentLogger,
      podCreations: new PodCreations(clock),
    });
    // As the operator starts.
    const started = reads.seed().then((fill) => {
      observe<Sandbox>(
        reflector,
        (one) => cache.observe(one),
        (one) => cache.forget(one),
      )({ enqueueAfter: () => undefined });
      fill();
    });
    for (let count = 0; count < turn; count += 1) await Promise.resolve();
    await client.delete(sandboxes, 'default', 'gone');
    await started;
    await clock.settle();
    const { signal } = new AbortController();
    // A read may ask for another one.
    for (const name of requests) await reads.read({ namespace: 'default', name }, signal);
    expect(cache.snapshot('default').owner('alice')?.load.taken ?? 0).toBe(0);
    await reflector.stop();
  },
);
