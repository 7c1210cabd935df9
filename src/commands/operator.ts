import { hostname } from 'node:os';
import { randomBytes } from 'node:crypto';
import { createAgentClient } from '../agent/kinds.ts';
import { AgentEvents } from '../agent/events.ts';
import { WorkspaceFiles } from '../agent/workspace-files.ts';
import { archiveConfigOf } from '../config/archive.ts';
import { readOperatorConfig, sandboxOutwardOf } from '../config/cluster.ts';
import { preparationLimits } from '../config/environment.ts';
import { createCaches, reflectorsOf } from '../controllers/caches.ts';
import { InitialObjects } from '../controllers/initial-objects/reconcile.ts';
import { startNotificationListener } from '../controllers/conversation/polling/agent-notifications.ts';
import { Operator } from '../controllers/operator.ts';
import { lead } from '../controllers/shards/leadership.ts';
import { shardCaches, ShardClient, shardOf } from '../controllers/shards/shard.ts';
import { auditTo } from '../observability/audit.ts';
import { shareOfMetrics } from '../observability/metrics.ts';
import { operatorLeaseName } from '../resources/lease-names.ts';
import { openArchive } from './archive.ts';
import { mountedAgentCredentials } from './credential-files.ts';
import {
  auditLogOf,
  interrupted,
  clusterProcess,
  serveTelemetry,
  startReflectors,
  connectForLease,
} from './process.ts';

/** Without webhooks, polls alone have to notice a change within 5 s. */
const maxPollWithoutNotificationsMs = 4_000;

/** Runs the controllers. For each shard one process leads, and the others wait for its lease. */
export async function operator(): Promise<void> {
  const config = readOperatorConfig(process.env);
  const stopped = interrupted();
  await using stack = new AsyncDisposableStack();
  const { runtime, connection, namespace, keys, client } = await clusterProcess(config, stack);
  const { logger, metrics } = runtime;
  const scope = config.ALL_NAMESPACES ? {} : { namespace };
  const forLease = connectForLease(connection, runtime);
  stack.defer(() => forLease.transport.close());
  // Caches are filled before this process leads, so that a new leader only has to get the lease.
  const caches = createCaches({ client, ...scope, ...runtime });
  startReflectors(reflectorsOf(caches), stack);
  const stop = new AbortController();
  const initial = { ...runtime, objects: config.INITIAL_OBJECTS };
  let hasInitialObjects = false;
  const ensured = new InitialObjects({ ...initial, client }).ensure(stop.signal).then(
    () => (hasInitialObjects = true),
    // The promise rejects only when the process stops.
    () => undefined,
  );
  const ready = () => hasInitialObjects && reflectorsOf(caches).every(({ hasSynced }) => hasSynced);
  for (const port of [config.METRICS_PORT, config.HEALTH_PORT])
    await serveTelemetry({ host: config.HOST, port, metrics, ready }, stack);

  /** Operators by shard. */
  const leading = new Map<number, Operator>();
  let notificationPort: number | undefined;
  if (config.NOTIFICATION_PORT !== undefined) {
    const notifications = await startNotificationListener({
      host: config.NOTIFICATION_HOST ?? config.HOST,
      port: config.NOTIFICATION_PORT,
      keys,
      logger,
      onNotification: (notification) =>
        leading.get(shardOf(notification.namespace, config.SHARDS))?.notify(notification),
    });
    stack.defer(() => notifications.close());
    notificationPort = notifications.port;
  }

  const agentCredentials = mountedAgentCredentials(config.AGENT_CREDENTIALS_DIR, logger);
  const audit = auditTo(auditLogOf(config));
  const agent = createAgentClient();
  stack.defer(() => agent.close());
  const archive = openArchive(archiveConfigOf(config), keys, runtime, stack);
  const events = new AgentEvents();
  stack.defer(() => events.close());
  const files = new WorkspaceFiles();
  stack.defer(() => files.close());
  const ended = lead(
    {
      client: forLease.client,
      namespace,
      name: operatorLeaseName,
      shards: config.SHARDS,
      identity: `${config.POD_NAME ?? hostname()}_${randomBytes(4).toString('hex')}`,
      leaseDurationMs: config.LEASE_DURATION_SECONDS * 1000,
      renewDeadlineMs: config.LEASE_RENEW_DEADLINE_SECONDS * 1000,
      retryPeriodMs: config.LEASE_RETRY_PERIOD_SECONDS * 1000,
      ...runtime,
      ready: async (signal) => {
        await Promise.all(reflectorsOf(caches).map((reflector) => reflector.synced(signal)));
      },
      onStartedLeading: async ({ shard, owns, fenced }, signal) => {
        const share = shareOfMetrics(metrics);
        // With several shards, only the leader of one shard maintains the initial objects.
        const maintained =
          shard === shardOf(namespace, config.SHARDS)
            ? new InitialObjects({ ...initial, client: fenced(client) }).maintain(signal)
            : undefined;
        // The promise rejects when this process loses the lease.
        maintained?.catch(() => undefined);
        const work = new Operator({
          ...runtime,
          metrics: share.metrics,
          client: fenced(owns === undefined ? client : new ShardClient(client, owns)),
          caches: owns === undefined ? caches : shardCaches(caches, owns),
          agent,
          keys,
          gitHosts: config.GIT_HOSTS,
          agentCredentials,
          audit,
          ...scope,
          pauseBoundMs: config.PAUSE_TIMEOUT_SECONDS * 1000,
          preparation: preparationLimits(config),
          outward: sandboxOutwardOf(config),
          ...(archive === undefined ? {} : { archive: { ...archive, events, files } }),
          ...(config.AGENT_SIDE_URL === undefined
            ? { maxPollMs: maxPollWithoutNotificationsMs }
            : {
                agentSide: {
                  url: config.AGENT_SIDE_URL,
                  modelsUrl: config.MODEL_RELAY_URL,
                  namespace,
                },
              }),
        });
        try {
          await work.start(signal);
          leading.set(shard, work);
          metrics.shardsLed.set({}, leading.size);
          await new Promise<void>((resolve) =>
            signal.addEventListener('abort', () => resolve(), { once: true }),
          );
          leading.delete(shard);
          metrics.shardsLed.set({}, leading.size);
          await work.stop();
        } finally {
          share.end();
        }
      },
    },
    stop.signal,
  );
  logger.info('operator started', {
    notificationPort,
    namespace: config.ALL_NAMESPACES ? '*' : namespace,
    shards: config.SHARDS,
    server: connection.server,
  });
  const signal = await stopped;
  logger.info('stopping', { signal });
  stop.abort(new Error('the process is stopping'));
  await Promise.all([ended, ensured]);
}
