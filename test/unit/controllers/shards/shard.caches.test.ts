import { shardCaches, ShardClient } from '../../../../src/controllers/shards/shard.ts';
import { createCaches } from '../../../../src/controllers/caches.ts';
import { sandboxes, type Sandbox } from '../../../../src/resources/sandbox.ts';
import { createMetrics, shareOfMetrics } from '../../../../src/observability/metrics.ts';
import type { KubeClient, Mapping } from '@conversation-operator/kube/client';
import { silentLogger } from '@conversation-operator/base/logger';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const sandboxIn = (namespace: string): Sandbox => ({
  apiVersion: 'conversation-operator.dev/v1alpha1',
  kind: 'Sandbox',
  metadata: {
    namespace,
    name: 'one',
    uid: `uid-${namespace}`,
    resourceVersion: '1',
    generation: 1,
    creationTimestamp: '2030-01-01T00:00:00Z',
  },
  spec: { owner: 'alice', templateName: 'default', replicas: 1 },
});

/** A client whose lists have a sandbox in each of two namespaces, and whose watches are silent. */
function aClient(): KubeClient {
  const partial = {
    listMapped: <R>({ plural }: { plural: string }, map: Mapping<Sandbox, R>) =>
      Promise.resolve({
        resourceVersion: '1',
        items: (plural === sandboxes.plural ? ['mine', 'theirs'] : []).flatMap((namespace) => {
          const mapped = map(sandboxIn(namespace));
          return mapped === undefined ? [] : [mapped];
        }),
      }),
    watch: async function* () {
      await new Promise(() => undefined);
      yield undefined;
    },
  };
  return partial as unknown as KubeClient;
}

const owns = (namespace: string) => namespace === 'mine';

describe('the leader of a shard', () => {
  it('reads the objects of its namespaces only from the caches of the process', async () => {
    const clock = new VirtualClock();
    const runtime = { clock, random: () => 0.5, logger: silentLogger };
    const caches = createCaches({ client: aClient(), ...runtime });
    caches.sandboxes.start();
    await caches.sandboxes.synced();
    const { store, addHandler } = shardCaches(caches, owns).sandboxes;
    expect(caches.sandboxes.store.size).toBe(2);
    expect(store.size).toBe(1);
    expect(store.list()).toEqual([caches.sandboxes.store.get('mine', 'one')]);
    expect(store.get('theirs', 'one')).toBeUndefined();
    expect(store.byIndex('template', 'theirs/default')).toEqual([]);
    expect(store.byIndex('template', 'mine/default')).toEqual(
      caches.sandboxes.store.byIndex('template', 'mine/default'),
    );
    const added: (string | undefined)[] = [];
    addHandler({ added: ({ metadata }) => void added.push(metadata.namespace) });
    expect(added).toEqual(['mine']);
  });

  it('lists the objects of its namespaces only', async () => {
    const client = new ShardClient(aClient(), owns);
    const { items } = await client.list(sandboxes);
    expect(items.map(({ metadata }) => metadata.namespace)).toEqual(['mine']);
  });

  it('adds its part to the gauges of the process, and takes it away at its end', async () => {
    const whole = createMetrics();
    const [one, other] = [shareOfMetrics(whole), shareOfMetrics(whole)];
    one.metrics.sandboxes.set({ phase: 'RUNNING' }, 3);
    other.metrics.sandboxes.set({ phase: 'RUNNING' }, 0);
    other.metrics.sandboxes.inc({ phase: 'RUNNING' });
    other.metrics.queueDepth.labels({ controller: 'sandbox' }).set(2);
    const shown = async () => {
      const text = await whole.registry.metrics();
      return [
        ...text.matchAll(/^conversation_operator_(?:sandboxes|workqueue_depth){.*} (.*)$/gm),
      ].map(([, value]) => value);
    };
    expect(await shown()).toEqual(['2', '4']);
    one.end();
    expect(await shown()).toEqual(['2', '1']);
    other.end();
    expect(await shown()).toEqual(['0', '0']);
  });
});
