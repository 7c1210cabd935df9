import { readGatewayConfig } from '../config/cluster.ts';
import { createCallbackServer } from '../gateway/callback-server/callback-server.ts';
import { NotificationSender } from '../gateway/callback-server/notification-sender.ts';
import { webhooks } from '../gateway/callback-server/webhooks.ts';
import { createGateway } from '../gateway/gateway.ts';
import { gatewayCaches } from '../gateway/lookup/cache.ts';
import { loadConnection } from '@conversation-operator/kube/kubeconfig';
import { startTelemetryServer } from '../observability/telemetry-server.ts';
import { gatewaySettings } from './gateway-settings.ts';
import { cloneHandler, gitCredentials, gitDirectory } from './git-directory.ts';
import { interrupted } from './interruption.ts';
import { loggerOf } from './logging.ts';
import { mountedMasterKeys } from './master-keys.ts';
import { connect, createRuntime } from './runtime.ts';

/** The REST service against a cluster. Any number of these may run side by side. */
export async function gateway(version: string): Promise<void> {
  const config = readGatewayConfig(process.env);
  const stopped = interrupted();
  const logger = loggerOf(config);
  const runtime = createRuntime(logger);
  const { connection, namespace: ownNamespace } = await loadConnection({});
  const namespace = config.NAMESPACE ?? ownNamespace;
  await using stack = new AsyncDisposableStack();
  const { keys, close } = mountedMasterKeys({ files: config.MASTER_KEY_FILES, logger });
  stack.defer(close);

  const { client, transport } = connect(connection, runtime);
  stack.defer(() => transport.close());
  const caches = gatewayCaches({ client, namespace, ...runtime });
  for (const reflector of Object.values(caches)) {
    reflector.start();
    stack.defer(() => reflector.stop());
  }
  const credentials = gitCredentials(config, runtime);
  const server = createGateway({
    client,
    namespace,
    caches,
    keys,
    host: config.HOST,
    port: config.PORT,
    ...gatewaySettings(config),
    ...gitDirectory(config, credentials, runtime, stack),
    drainMs: config.DRAIN_SECONDS * 1000,
    clock: runtime.clock,
    logger,
    metrics: runtime.metrics,
    version,
    proxyLimits: {
      perSandbox: config.PROXY_CONNECTIONS_PER_SANDBOX,
      total: config.PROXY_CONNECTIONS,
      firstByteMs: config.PROXY_FIRST_BYTE_SECONDS * 1000,
      idleMs: config.PROXY_IDLE_SECONDS * 1000,
    },
    ...(config.SANDBOX_URL_TEMPLATE === undefined
      ? {}
      : { sandboxUrlTemplate: config.SANDBOX_URL_TEMPLATE }),
  });
  stack.defer(() => server.close());
  const { port } = await server.listen();
  const notifications = new NotificationSender({
    urls: config.OPERATOR_NOTIFICATION_URLS,
    key: () => keys.notificationKey(),
    ...runtime,
  });
  stack.defer(() => notifications.close());
  await notifications.open();
  let agentSidePort: number | undefined;
  if (config.AGENT_SIDE_PORT !== undefined) {
    const handlers = [
      cloneHandler(config, { credentials, keys, caches }, runtime, stack),
      webhooks({
        keys,
        notify: (notification, owner) => notifications.notify(notification, owner),
        clock: runtime.clock,
        metrics: runtime.metrics,
      }),
    ];
    const agentSide = createCallbackServer({
      ...{
        handlers,
        sandboxes: caches.sandboxes,
        namespace,
        host: config.HOST,
        port: config.AGENT_SIDE_PORT,
        ...runtime,
      },
      // More than a sandbox that works needs, and few enough that one alone can't take them all.
      maxConnectionsPerAddress: 128,
    });
    stack.defer(() => agentSide.close());
    ({ port: agentSidePort } = await agentSide.listen());
  }
  const telemetry = await startTelemetryServer({
    host: config.HOST,
    port: config.METRICS_PORT,
    metrics: runtime.metrics,
    ready: () => Object.values(caches).every(({ hasSynced }) => hasSynced),
  });
  stack.defer(() => telemetry.close());
  logger.info('gateway started', { port, agentSidePort, namespace, server: connection.server });
  const signal = await stopped;
  logger.info('stopping', { signal });
}
