import { loadConnection } from '@conversation-operator/kube/kubeconfig';
import type { GatewayConfig, OperatorConfig } from '../config/cluster.ts';
import {
  startTelemetryServer,
  type TelemetryServerOptions,
} from '../observability/telemetry-server.ts';
import { loggerOf } from './logging.ts';
import { mountedMasterKeys } from './master-keys.ts';
import { connect, createRuntime } from './runtime.ts';

/** The first parts of a command that works against a cluster; the stack ends them. */
export async function clusterProcess(
  config: OperatorConfig | GatewayConfig,
  stack: AsyncDisposableStack,
) {
  const logger = loggerOf(config);
  const runtime = createRuntime(logger);
  const { connection, namespace: ownNamespace } = await loadConnection({});
  const { keys, close } = mountedMasterKeys({ files: config.MASTER_KEY_FILES, logger });
  stack.defer(close);
  const { client, transport } = connect(connection, runtime);
  stack.defer(() => transport.close());
  return { runtime, connection, namespace: config.NAMESPACE ?? ownNamespace, keys, client };
}

/** Fills caches until the stack ends. */
export function startReflectors(
  reflectors: readonly { start(): void; stop(): Promise<void> }[],
  stack: AsyncDisposableStack,
): void {
  for (const reflector of reflectors) {
    reflector.start();
    stack.defer(() => reflector.stop());
  }
}

/** Serves metrics and health until the stack ends, and returns the port. */
export async function serveTelemetry(
  options: TelemetryServerOptions,
  stack: AsyncDisposableStack,
): Promise<number> {
  const server = await startTelemetryServer(options);
  stack.defer(() => server.close());
  return server.port;
}
