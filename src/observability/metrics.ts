import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client';

const seconds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const stageSeconds = [0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300];

/** Every metric of the product, in one place. Labels come from closed sets. */
export function createMetrics(registry: Registry = new Registry()) {
  const registers = [registry];
  const name = (suffix: string) => `conversation_operator_${suffix}`;
  return {
    registry,
    reconciles: new Counter({
      name: name('reconciles_total'),
      help: 'Reconciles by controller and outcome.',
      labelNames: ['controller', 'result'] as const,
      registers,
    }),
    reconcileSeconds: new Histogram({
      name: name('reconcile_duration_seconds'),
      help: 'How long a reconcile takes.',
      labelNames: ['controller'] as const,
      buckets: seconds,
      registers,
    }),
    queueDepth: new Gauge({
      name: name('workqueue_depth'),
      help: 'Keys that wait for a worker.',
      labelNames: ['controller'] as const,
      registers,
    }),
    queueWaitSeconds: new Histogram({
      name: name('workqueue_wait_seconds'),
      help: 'How long a key waits for a worker.',
      labelNames: ['controller'] as const,
      buckets: seconds,
      registers,
    }),
    apiCalls: new Counter({
      name: name('kube_api_calls_total'),
      help: 'Calls to the API server by verb, kind and status (0: no answer).',
      labelNames: ['verb', 'resource', 'status'] as const,
      registers,
    }),
    apiCallSeconds: new Histogram({
      name: name('kube_api_call_duration_seconds'),
      help: 'How long calls to the API server take.',
      labelNames: ['verb'] as const,
      buckets: seconds,
      registers,
    }),
    watchRestarts: new Counter({
      name: name('kube_watch_restarts_total'),
      help: 'Watches begun again, by kind and cause.',
      labelNames: ['resource', 'cause'] as const,
      registers,
    }),
    httpRequests: new Counter({
      name: name('http_requests_total'),
      help: 'Requests to the gateway by method, route pattern and status.',
      labelNames: ['method', 'route', 'status'] as const,
      registers,
    }),
    httpSeconds: new Histogram({
      name: name('http_request_duration_seconds'),
      help: 'How long the gateway takes to answer.',
      labelNames: ['route'] as const,
      buckets: seconds,
      registers,
    }),
    rateLimited: new Counter({
      name: name('rate_limited_requests_total'),
      help: 'Requests answered with 429, by limit: reads, writes (of an owner), failed-keys (of a client address).',
      labelNames: ['limit'] as const,
      registers,
    }),
    shedRequests: new Counter({
      name: name('shed_requests_total'),
      help: 'Requests refused with 503 because of too much load, by kind: reads, writes.',
      labelNames: ['kind'] as const,
      registers,
    }),
    droppedConnections: new Counter({
      name: name('dropped_connections_total'),
      help: 'Connections closed at once, and requests by way of a trusted proxy refused, because there were too many.',
      registers,
    }),
    webhooks: new Counter({
      name: name('webhooks_total'),
      help: 'Webhooks of agents by result: notified (passed on as a notification), passed (nothing in it), limited (too many), unauthorized.',
      labelNames: ['result'] as const,
      registers,
    }),
    proxyWebSockets: new Gauge({
      name: name('proxy_websockets'),
      help: 'WebSockets between clients and agents that are open.',
      registers,
    }),
    startStageSeconds: new Histogram({
      name: name('start_stage_duration_seconds'),
      help: 'How long a start stays in each status.',
      labelNames: ['stage'] as const,
      buckets: stageSeconds,
      registers,
    }),
    starts: new Counter({
      name: name('starts_total'),
      help: 'Starts that came to an end, by outcome (READY or ERROR) and error code.',
      labelNames: ['outcome', 'code'] as const,
      registers,
    }),
    gitChecks: new Counter({
      name: name('git_checks_total'),
      help: 'Repositories asked for before a start was accepted, by result: granted, denied, branch-not-found, unknown (the host could not be asked).',
      labelNames: ['result'] as const,
      registers,
    }),
    gitClones: new Counter({
      name: name('git_clones_total'),
      help: 'Requests of sandboxes for private repositories, by result: stream (passed on), open (no credential is needed or there), denied, failed.',
      labelNames: ['result'] as const,
      registers,
    }),
    quotaSlots: new Gauge({
      name: name('quota_slots'),
      help: 'Sandboxes as quotas see them: active (they take a slot), waiting (for one), paused (by a quota, to come back).',
      labelNames: ['state'] as const,
      registers,
    }),
    quotaPauses: new Counter({
      name: name('quota_pauses_total'),
      help: 'Sandboxes paused by the system, by reason: Newcomer, LimitLowered, Idle, MaxActiveTime.',
      labelNames: ['reason'] as const,
      registers,
    }),
    admissionWaitSeconds: new Histogram({
      name: name('admission_wait_seconds'),
      help: 'Time between the request for a sandbox and its admission.',
      buckets: [...stageSeconds, 900, 3600],
      registers,
    }),
    admissionDecisionSeconds: new Histogram({
      name: name('admission_decision_duration_seconds'),
      help: 'How long one decision of the quota takes, without writing it.',
      buckets: [0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.025, 0.1],
      registers,
    }),
    retentionDeletions: new Counter({
      name: name('retention_deletions_total'),
      help: 'Objects deleted by retention, by kind (Conversation, Sandbox) and rule: Finished, Failed, Paused, Records.',
      labelNames: ['kind', 'rule'] as const,
      registers,
    }),
    sandboxes: new Gauge({
      name: name('sandboxes'),
      help: 'Sandboxes by phase.',
      labelNames: ['phase'] as const,
      registers,
    }),
  };
}

export type Metrics = ReturnType<typeof createMetrics>;

/** Memory, CPU, event loop and garbage collection of this process, in the same registry. */
export const collectProcessMetrics = (metrics: Metrics): void =>
  collectDefaultMetrics({ register: metrics.registry });
