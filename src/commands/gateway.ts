import type { AgentNotification } from '../agent/notifications.ts';
import { archiveConfigOf } from '../config/archive.ts';
import { readGatewayConfig } from '../config/cluster.ts';
import { sandboxConnections } from '../gateway/callback-server/callback-server.ts';
import { NotificationSender } from '../gateway/callback-server/notification-sender.ts';
import { createGateway } from '../gateway/gateway.ts';
import { gatewayCaches, serviceCaches } from '../gateway/lookup/cache.ts';
import { openArchive } from './archive.ts';
import { mountedAgentCredentials } from './credential-files.ts';
import {
  serveAgentSide,
  auditOf,
  gatewaySettings,
  webDirectories,
  pullRequestService,
  signInOf,
} from './gateway-wiring.ts';
import { gitCredentials, gitDirectory } from './git-directory.ts';
import { interrupted, clusterProcess, serveTelemetry, startReflectors } from './process.ts';

export interface GatewayProgram {
  readonly version: string;
  /** Folder of the program file. The built pages are beside this file. */
  readonly programFolder: string;
}

/** Runs the REST service for a cluster. Several gateways may run at the same time. */
export async function gateway({ version, programFolder }: GatewayProgram): Promise<void> {
  const config = readGatewayConfig(process.env);
  const stopped = interrupted();
  await using stack = new AsyncDisposableStack();
  const { runtime, connection, namespace, keys, client, transport } = await clusterProcess(
    config,
    stack,
  );
  const { clock, logger, metrics } = runtime;
  const caches = gatewayCaches({ client, namespace, ...runtime });
  const ofService = serviceCaches({ client, namespace, ...runtime });
  startReflectors([...Object.values(caches), ...Object.values(ofService)], stack);
  const credentials = gitCredentials(config, runtime, stack);
  const modelCredentials = config.MODEL_RELAY
    ? mountedAgentCredentials(config.AGENT_CREDENTIALS_DIR, logger)
    : undefined;
  const audit = auditOf(config, runtime);
  const forPullRequests = { client, credentials, caches, audit };
  const pullRequests = pullRequestService(config, forPullRequests, runtime, stack);
  const archive = openArchive(archiveConfigOf(config), keys, runtime, stack);
  const server = createGateway({
    client,
    namespace,
    caches,
    serviceCaches: ofService,
    keys,
    host: config.HOST,
    port: config.PORT,
    ...gatewaySettings(config),
    audit,
    ...signInOf(config, runtime, transport),
    ...webDirectories(programFolder, config),
    ...gitDirectory(config, credentials, runtime, stack),
    pullRequests,
    ...(archive === undefined ? {} : { history: archive.reader }),
    drainMs: config.DRAIN_SECONDS * 1000,
    clock,
    logger,
    metrics,
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
    const options = {
      client,
      credentials,
      modelCredentials,
      keys,
      caches,
      namespace,
      pullRequests,
      audit,
      version,
      host: config.HOST,
      port: config.AGENT_SIDE_PORT,
      maxConnectionsPerAddress: sandboxConnections,
      notify: (notification: AgentNotification, owner: string) =>
        notifications.notify(notification, owner),
    };
    agentSidePort = await serveAgentSide(config, options, runtime, stack);
  }
  const ready = () => Object.values(caches).every(({ hasSynced }) => hasSynced);
  await serveTelemetry({ host: config.HOST, port: config.METRICS_PORT, metrics, ready }, stack);
  logger.info('gateway started', { port, agentSidePort, namespace, server: connection.server });
  const signal = await stopped;
  logger.info('stopping', { signal });
}
