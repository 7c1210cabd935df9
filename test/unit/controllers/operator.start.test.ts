import { OpenHandsClient } from '../../../src/agent/openhands-client.ts';
import { createCaches, type Caches } from '../../../src/controllers/caches.ts';
import { Operator } from '../../../src/controllers/operator.ts';
import { silentLogger } from '@conversation-operator/base/logger';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { aConversation } from '../../support/builders.ts';
import { FakeKubeClient } from '../../support/fake-kube-client.ts';
import { sceneKeys } from '../../support/sandbox-scene.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const kinds = [
  'conversations',
  'sandboxes',
  'templates',
  'pools',
  'quotas',
  'pods',
  'claims',
  'handovers',
  'usageRecords',
] as const satisfies readonly (keyof Caches)[];

/** An operator whose caches are filled as soon as a test says so. */
function anOperator() {
  const client = new FakeKubeClient();
  client.put(conversations, aConversation());
  const calls: string[] = [];
  client.fault = ({ verb, plural }) => void calls.push(`${verb} ${plural}`);
  const clock = new VirtualClock();
  const runtime = { clock, random: () => 0.5, logger: silentLogger };
  const caches = createCaches({ ...runtime, client });
  const fill = Object.fromEntries(
    kinds.map((kind) => {
      const { promise, resolve } = Promise.withResolvers<undefined>();
      Object.assign(caches[kind], { synced: () => promise });
      return [kind, () => resolve(undefined)];
    }),
  ) as Record<(typeof kinds)[number], () => void>;
  const agent = new OpenHandsClient();
  const operator = new Operator({
    client,
    caches,
    agent,
    keys: sceneKeys,
    gitHosts: {},
    ...runtime,
    audit: () => undefined,
    metrics: createMetrics(),
  });
  return { operator, agent, clock, calls, fill };
}

it.each(kinds)('reads and writes nothing before the cache of %s is filled', async (last) => {
  const { operator, agent, clock, calls, fill } = anOperator();
  const started = operator.start();
  for (const kind of kinds) if (kind !== last) fill[kind]();
  await clock.advance(60_000);
  expect(calls).toEqual([]);
  fill[last]();
  await clock.run(started);
  // The admission reads what the leader before has written last.
  expect(calls).toContain('list sandboxes');
  await operator.stop();
  await agent.close();
});
