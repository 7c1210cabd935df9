import { loadConnection } from '@conversation-operator/kube/kubeconfig';
import type { GatewayConfig, OperatorConfig, RelayConfig } from '../config/cluster.ts';
import {
  startTelemetryServer,
  type TelemetryServerOptions,
} from '../observability/telemetry-server.ts';
import { withOutward } from './outward.ts';
import { mountedMasterKeys } from './credential-files.ts';
import { randomInt } from 'node:crypto';
import { systemClock } from '@conversation-operator/base/clock';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import {
  Transport,
  type Connection,
  type TransportOptions,
} from '@conversation-operator/kube/transport';
import {
  collectProcessMetrics,
  createMetrics,
  type MeasuredRuntime,
} from '../observability/metrics.ts';
import { type Logger, type LogLevel, silentLogger } from '@conversation-operator/base/logger';
import { createLogger } from '../observability/logger.ts';
import type { KubeClient } from '@conversation-operator/kube/client';

const resolution = 2 ** 47;

export function createRuntime(logger: Logger): MeasuredRuntime {
  const metrics = createMetrics();
  collectProcessMetrics(metrics);
  return { clock: systemClock, random: () => randomInt(resolution) / resolution, logger, metrics };
}

export function connect(
  connection: Connection,
  runtime: MeasuredRuntime,
  options: Pick<TransportOptions, 'connections'> = {},
) {
  const transport = new Transport({ connection, ...runtime, ...options });
  return { client: new HttpKubeClient({ transport }), transport };
}

/** One connection for a call, and one for the next call if the first call gets no response. */
const leaseConnections = 2;

/**
 * The client of a lease has its own connections, because calls wait in one queue for a free
 * connection. A renewal behind hundreds of slow writes would be late, and the leader would lose its
 * lease although the API server answers all calls.
 */
export const connectForLease = (connection: Connection, runtime: MeasuredRuntime) =>
  connect(connection, runtime, { connections: leaseConnections });

/** Without LOG_FORMAT, the format is `pretty` on a terminal and `json` elsewhere. */
export const loggerOf = (config: {
  readonly LOG_LEVEL: LogLevel;
  readonly LOG_FORMAT?: 'json' | 'pretty' | undefined;
}): Logger =>
  createLogger({
    level: config.LOG_LEVEL,
    format: config.LOG_FORMAT ?? (process.stderr.isTTY ? 'pretty' : 'json'),
  });

/** The part of the log that is the audit log, at every LOG_LEVEL. */
export const auditLogOf = (config: Parameters<typeof loggerOf>[0]): Logger =>
  loggerOf({ ...config, LOG_LEVEL: 'info' }).child({ component: 'audit' });

/** Maximum time of a shutdown, less than the grace period of pods in Kubernetes (30 s). */
const graceMs = 25_000;

/**
 * Resolves at the first SIGINT or SIGTERM. A second signal ends the process at once, for a user who
 * presses Ctrl-C twice. A shutdown that takes longer than `graceMs` ends the process.
 */
export function interrupted(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let first = true;
    const onSignal = (signal: NodeJS.Signals) => {
      if (!first) process.exit(130);
      first = false;
      setTimeout(() => {
        process.stderr.write(
          `conversation-operator: not ended within ${graceMs / 1000} s of ${signal}, so it is ended at once\n`,
        );
        process.exit(1);
      }, graceMs).unref();
      resolve(signal);
    };
    process.on('SIGINT', onSignal);
    process.on('SIGTERM', onSignal);
  });
}

/** Creates what each command for a cluster needs. The stack closes everything. */
export async function clusterProcess(
  config: OperatorConfig | GatewayConfig | RelayConfig,
  stack: AsyncDisposableStack,
) {
  const logger = loggerOf(config);
  const runtime = withOutward(config, createRuntime(logger));
  const { connection, namespace: ownNamespace } = await loadConnection({});
  const { keys, close } = mountedMasterKeys({ ...runtime, files: config.MASTER_KEY_FILES });
  stack.defer(close);
  const { client, transport } = connect(connection, runtime);
  stack.defer(() => transport.close());
  return {
    runtime,
    connection,
    namespace: config.NAMESPACE ?? ownNamespace,
    keys,
    client,
    transport,
  };
}

/** Starts the reflectors, which the stack stops. */
export function startReflectors(
  reflectors: readonly { start(): void; stop(): Promise<void> }[],
  stack: AsyncDisposableStack,
): void {
  for (const reflector of reflectors) {
    reflector.start();
    stack.defer(() => reflector.stop());
  }
}

/** Serves metrics and health checks until the stack closes. Returns the port. */
export async function serveTelemetry(
  options: TelemetryServerOptions,
  stack: AsyncDisposableStack,
): Promise<number> {
  const server = await startTelemetryServer(options);
  stack.defer(() => server.close());
  return server.port;
}

export interface ClusterOptions {
  /** Default: $KUBECONFIG, ~/.kube/config, or the service account of the pod. */
  readonly kubeconfig?: string;
  /** Default: the namespace of the kubeconfig. */
  readonly namespace?: string;
}

/** Runs `work` with the rights of the user who runs the command. */
export async function withClient<T>(
  options: ClusterOptions,
  work: (client: KubeClient, namespace: string) => Promise<T>,
): Promise<T> {
  const { connection, namespace } = await loadConnection(
    options.kubeconfig === undefined ? {} : { kubeconfig: options.kubeconfig },
  );
  const { client, transport } = connect(connection, createRuntime(silentLogger));
  try {
    return await work(client, options.namespace ?? namespace);
  } finally {
    await transport.close();
  }
}
