import { sleep } from '@conversation-operator/base/clock';
import { EventRecorder } from '@conversation-operator/kube/events';
import { readRelayConfig } from '../config/cluster.ts';
import {
  createCallbackServer,
  sandboxConnections,
} from '../gateway/callback-server/callback-server.ts';
import { relayCaches } from '../gateway/lookup/cache.ts';
import { mountedAgentCredentials } from './credential-files.ts';
import { relayForModels } from './models-wiring.ts';
import { clusterProcess, interrupted, serveTelemetry, startReflectors } from './process.ts';

/**
 * Runs the relay for models apart from the gateway, so that models have replicas, rights and a
 * network policy of their own, and the gateway has no key of a model. Several relays may run at the
 * same time. A relay that ends settles its calls, and gives back what it holds of budgets.
 */
export async function relay(): Promise<void> {
  const config = readRelayConfig(process.env);
  const stopped = interrupted();
  await using stack = new AsyncDisposableStack();
  const { runtime, connection, namespace, keys, client } = await clusterProcess(config, stack);
  const { clock, logger, metrics } = runtime;
  const caches = relayCaches({ client, namespace, ...runtime });
  startReflectors(Object.values(caches), stack);
  const credentials = mountedAgentCredentials(config.AGENT_CREDENTIALS_DIR, logger);
  const events = new EventRecorder({ client, component: 'relay', ...runtime });
  stack.defer(() => events.close());
  const models = relayForModels(
    { config, client, events, keys, caches, credentials, namespace },
    runtime,
    stack,
  );
  const server = createCallbackServer({
    ...runtime,
    handlers: [models],
    sandboxes: caches.sandboxes,
    namespace,
    host: config.HOST,
    port: config.AGENT_SIDE_PORT,
    maxConnectionsPerAddress: sandboxConnections,
  });
  stack.defer(() => server.close());
  const { port } = await server.listen();
  let isStopping = false;
  const ready = () => !isStopping && Object.values(caches).every(({ hasSynced }) => hasSynced);
  await serveTelemetry({ host: config.HOST, port: config.METRICS_PORT, metrics, ready }, stack);
  logger.info('relay started', { port, namespace, server: connection.server });
  const signal = await stopped;
  logger.info('stopping', { signal });
  isStopping = true;
  await sleep(clock, config.DRAIN_SECONDS * 1000);
}
