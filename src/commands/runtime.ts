import { randomInt } from 'node:crypto';
import { systemClock, type Clock } from '../kube/clock.ts';
import { HttpKubeClient } from '../kube/http-client.ts';
import { Transport, type Connection } from '../kube/transport.ts';
import { collectProcessMetrics, createMetrics, type Metrics } from '../observability/metrics.ts';
import type { Logger } from '../observability/logger.ts';

/** What every long-running command is made of. */
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
export function connect(connection: Connection, runtime: Runtime) {
  const transport = new Transport({ connection, ...runtime });
  return { client: new HttpKubeClient({ transport }), transport };
}
