import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { KubeMetrics } from '../src/runtime-options.ts';

/** The metrics of the client runtime, in a registry of their own. */
export function recordedMetrics() {
  const registers = [new Registry()];
  const help = 'A metric of a test.';
  const controllers = { help, labelNames: ['controller'] as const, registers };
  return {
    apiCalls: new Counter({
      name: 'api_calls',
      help,
      labelNames: ['verb', 'resource', 'status'] as const,
      registers,
    }),
    apiCallSeconds: new Histogram({
      name: 'api_call_seconds',
      help,
      labelNames: ['verb'] as const,
      registers,
    }),
    watchRestarts: new Counter({
      name: 'watch_restarts',
      help,
      labelNames: ['resource', 'cause'] as const,
      registers,
    }),
    reconciles: new Counter({
      name: 'reconciles',
      help,
      labelNames: ['controller', 'result'] as const,
      registers,
    }),
    reconcileSeconds: new Histogram({ name: 'reconcile_seconds', ...controllers }),
    queueDepth: new Gauge({ name: 'queue_depth', ...controllers }),
    queueWaitSeconds: new Histogram({ name: 'queue_wait_seconds', ...controllers }),
  } satisfies KubeMetrics;
}
