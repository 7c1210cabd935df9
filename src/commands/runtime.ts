import { randomInt } from 'node:crypto';
import { systemClock, type Clock } from '@conversation-operator/base/clock';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import {
  Transport,
  type Connection,
  type TransportOptions,
} from '@conversation-operator/kube/transport';
import { collectProcessMetrics, createMetrics, type Metrics } from '../observability/metrics.ts';
import type { Logger } from '@conversation-operator/base/logger';

/** Common parts of every long-running command. */
export interface Runtime {
  readonly clock: Clock;
  /** Uniform in 0..1. */
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

const resolution = 2 ** 47;

export function createRuntime(logger: Logger): Runtime {
  const metrics = createMetrics();
  collectProcessMetrics(metrics);
  return { clock: systemClock, random: () => randomInt(resolution) / resolution, logger, metrics };
}

/** A client and what it holds open. */
export function connect(
  connection: Connection,
  runtime: Runtime,
  options: Pick<TransportOptions, 'connections'> = {},
) {
  const transport = new Transport({ connection, ...runtime, ...options });
  return { client: new HttpKubeClient({ transport }), transport };
}

/**
 * Connections for the lease: one for the call under way, one for the case that the first has fallen
 * silent.
 */
const leaseConnections = 2;

/**
 * The client of a lease. The client shares no connections with the leader's work, because calls
 * wait in one queue for a free one: a renewal behind some hundred slow writes would come too late,
 * and the leader would lose its lease although the API server answers everything.
 */
export const connectForLease = (connection: Connection, runtime: Runtime) =>
  connect(connection, runtime, { connections: leaseConnections });
