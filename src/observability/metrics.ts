import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client';
import type { PlainGauge } from './plain-gauge.ts';

const seconds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const stageSeconds = [0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300];

/** Every metric of the product, in one place. Labels come from closed sets. */
export function createMetrics(registry: Registry = new Registry()) {
  const registers = [registry];
  const prefix = 'conversation_operator_';
  const counter = <L extends string>(name: string, help: string, labelNames: L[] = []) =>
    new Counter({ name: prefix + name, help, labelNames, registers });
  const gauge = <L extends string>(
    name: string,
    help: string,
    labelNames: L[] = [],
  ): PlainGauge<L> => new Gauge({ name: prefix + name, help, labelNames, registers });
  const histogram = <L extends string>(
    name: string,
    help: string,
    buckets: number[],
    labelNames: L[] = [],
  ) => new Histogram({ name: prefix + name, help, buckets, labelNames, registers });
  return {
    registry,
    reconciles: counter('reconciles_total', 'Reconciles by controller and outcome.', [
      'controller',
      'result',
    ]),
    reconcileSeconds: histogram(
      'reconcile_duration_seconds',
      'How long a reconcile takes.',
      seconds,
      ['controller'],
    ),
    queueDepth: gauge('workqueue_depth', 'Keys that wait for a worker.', ['controller']),
    queueWaitSeconds: histogram(
      'workqueue_wait_seconds',
      'How long a key waits for a worker.',
      seconds,
      ['controller'],
    ),
    apiCalls: counter(
      'kube_api_calls_total',
      'Calls to the API server by verb, kind and status (0: no answer).',
      ['verb', 'resource', 'status'],
    ),
    apiCallSeconds: histogram(
      'kube_api_call_duration_seconds',
      'How long calls to the API server take.',
      seconds,
      ['verb'],
    ),
    watchRestarts: counter('kube_watch_restarts_total', 'Watches begun again, by kind and cause.', [
      'resource',
      'cause',
    ]),
    httpRequests: counter(
      'http_requests_total',
      'Requests to the gateway by method, route pattern and status.',
      ['method', 'route', 'status'],
    ),
    httpSeconds: histogram(
      'http_request_duration_seconds',
      'How long the gateway takes to answer.',
      seconds,
      ['route'],
    ),
    rateLimited: counter(
      'rate_limited_requests_total',
      'Requests answered with 429, by limit: reads, writes (of an owner), failed-keys (of a client address).',
      ['limit'],
    ),
    shedRequests: counter(
      'shed_requests_total',
      'Requests refused with 503 because of too much load, by kind: reads, writes.',
      ['kind'],
    ),
    droppedConnections: counter(
      'dropped_connections_total',
      'Connections closed at once, and requests by way of a trusted proxy refused, because there were too many.',
    ),
    evictedConnections: counter(
      'evicted_connections_total',
      'Connections without a request closed at the limit of all connections, each to make room for a new one.',
    ),
    webhooks: counter(
      'webhooks_total',
      'Webhooks of agents by result: notified (passed on as a notification), passed (nothing in it), limited (too many), unauthorized.',
      ['result'],
    ),
    proxyWebSockets: gauge(
      'proxy_websockets',
      'WebSockets between clients and agents that are open.',
    ),
    startStageSeconds: histogram(
      'start_stage_duration_seconds',
      'How long a start stays in each status.',
      stageSeconds,
      ['stage'],
    ),
    starts: counter(
      'starts_total',
      'Starts that came to an end, by outcome (READY or ERROR) and error code.',
      ['outcome', 'code'],
    ),
    gitChecks: counter(
      'git_checks_total',
      'Repositories asked for before a start was accepted, by result: granted, denied, branch-not-found, unknown (the host could not be asked).',
      ['result'],
    ),
    gitClones: counter(
      'git_clones_total',
      'Requests of sandboxes for private repositories, by result: stream (passed on), open (no credential is needed or there), denied, failed.',
      ['result'],
    ),
    quotaSlots: gauge(
      'quota_slots',
      'Sandboxes as quotas see them: active (they take a slot), waiting (for one), paused (by a quota, to come back).',
      ['state'],
    ),
    quotaPauses: counter(
      'quota_pauses_total',
      'Sandboxes paused by the system, by reason: Newcomer, LimitLowered, Idle, MaxActiveTime.',
      ['reason'],
    ),
    admissionWaitSeconds: histogram(
      'admission_wait_seconds',
      'Time between the request for a sandbox and its admission.',
      [...stageSeconds, 900, 3600],
    ),
    admissionDecisionSeconds: histogram(
      'admission_decision_duration_seconds',
      'How long one decision of the quota takes, without writing it.',
      [0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.025, 0.1],
    ),
    poolStarts: counter(
      'pool_starts_total',
      'Starts from a template with a SandboxPool, by result: claimed (a spare), empty (no spare was ready), quota (the owner has no room), share (the owner has claimed its share while others start), unfit (a volume was retained for the start, or the template fits no pool).',
      ['result'],
    ),
    retentionDeletions: counter(
      'retention_deletions_total',
      'Objects deleted by retention, by kind (Conversation, Sandbox) and rule: Finished, Failed, Paused, Records.',
      ['kind', 'rule'],
    ),
    sandboxes: gauge('sandboxes', 'Sandboxes by phase.', ['phase']),
    shardsLed: gauge(
      'shards_led',
      'Shards of namespaces that this process leads; without shards, 1 in the process that leads.',
    ),
  };
}

export type Metrics = ReturnType<typeof createMetrics>;

/** Memory, CPU, event loop and garbage collection of this process, in the same registry. */
export const collectProcessMetrics = (metrics: Metrics): void =>
  collectDefaultMetrics({ register: metrics.registry });
