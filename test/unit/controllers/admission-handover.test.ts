import { AdmissionCache } from '../../../src/controllers/admission/cache.ts';
import { sandboxIndexers } from '../../../src/controllers/caches.ts';
import { handle, observing } from '../../../src/controllers/event-source.ts';
import { PodCreations } from '../../../src/controllers/sandbox/pod-creations.ts';
import { IndexedStore } from '../../../packages/kube/src/store.ts';
import { Reflector } from '../../../packages/kube/src/reflector.ts';
import { silentLogger } from '@conversation-operator/base/logger';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { sandboxes, type Sandbox } from '../../../src/resources/sandbox.ts';
import { FakeKubeClient } from '../../support/fake-kube-client.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { aSandbox, admitted } from '../../support/builders.ts';

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
      ...{ client, resource: sandboxes, clock, random: () => 0, logger: silentLogger },
      indexers: sandboxIndexers,
    });
    reflector.start();
    await clock.run(reflector.synced());
    const reads: string[] = [];
    const cache = new AdmissionCache({
      client,
      stores: {
        sandboxes: reflector.store,
        conversations: new IndexedStore({ sandbox: () => [] }),
        templates: new IndexedStore(),
        quotas: new IndexedStore(),
        pods: new IndexedStore(),
      },
      podCreations: new PodCreations(clock),
      ...{ clock, logger: silentLogger, metrics: createMetrics() },
      enqueue: () => undefined,
      enqueueRead: ({ name }) => void reads.push(name),
      enqueueQuota: () => undefined,
    });
    // As the operator starts.
    const started = cache.seed().then((fill) => {
      handle(
        reflector,
        observing<Sandbox>(
          (one) => cache.observe(one),
          (one) => cache.forget(one),
        ),
      )({ enqueueAfter: () => undefined });
      fill();
    });
    for (let count = 0; count < turn; count += 1) await Promise.resolve();
    await client.delete(sandboxes, 'default', 'gone');
    await started;
    await clock.settle();
    const { signal } = new AbortController();
    // A read may ask for another one.
    for (const name of reads) await cache.read({ namespace: 'default', name }, signal);
    expect(cache.snapshot('default').owner('alice')?.load.taken ?? 0).toBe(0);
    await reflector.stop();
  },
);
