import { Counter, Histogram, Registry, collectDefaultMetrics } from 'prom-client';
import {
  ClosedCounter,
  ClosedGauge,
  ClosedHistogram,
  type ClosedMetricOptions,
  type LabelRules,
  type PlainGauge,
  firstValues,
  httpMethod,
  httpStatus,
  type LabelRule,
} from './closed-metrics.ts';
import { ModelApi } from '../models/apis/model-api.ts';
import { providerFailureKinds } from '../models/provider-failures.ts';
import { refusalKinds } from '../models/apis/refusals.ts';
import {
  modelWaitReasons,
  sandboxStatuses,
  startStatuses,
} from '../resources/conversation-status.ts';
import type { Runtime } from '@conversation-operator/base/runtime';

const modelApis = Object.values(ModelApi);
const seconds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const storeResults = [
  'success',
  'aborted',
  'denied',
  'missing',
  'invalid',
  'throttled',
  'unavailable',
  'timeout',
] as const;
const stageSeconds = [0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300];

/** Creates every metric of the program. The values of each label form a bounded set. */
export function createMetrics(registry: Registry = new Registry()) {
  const registers = [registry];
  const prefix = 'conversation_operator_';
  const options = <R extends LabelRules>(
    name: string,
    help: string,
    labels: R,
  ): ClosedMetricOptions<R> => ({ name: prefix + name, help, labels, registers });
  const plain = (name: string, help: string) => ({ name: prefix + name, help, registers });
  const counter = <const R extends LabelRules>(name: string, help: string, labels: R) =>
    new ClosedCounter(options(name, help, labels));
  const gauge = <L extends string>(
    name: string,
    help: string,
    labels: Readonly<Record<L, LabelRule>>,
  ): PlainGauge<L> => new ClosedGauge(options(name, help, labels));
  const histogram = <const R extends LabelRules>(
    name: string,
    help: string,
    buckets: number[],
    labels: R,
  ) => new ClosedHistogram({ ...options(name, help, labels), buckets });
  // Metrics with the same label share one rule, and so the same bounded set of values.
  const controller = firstValues(50);
  const resource = firstValues(50);
  const route = firstValues(150);
  const verb = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'] as const;
  return {
    registry,
    reconciles: counter('reconciles_total', 'Reconciles by controller and outcome.', {
      controller,
      result: ['success', 'requeue', 'conflict', 'error'],
    }),
    reconcileSeconds: histogram(
      'reconcile_duration_seconds',
      'How long a reconcile takes.',
      seconds,
      { controller },
    ),
    queueDepth: gauge('workqueue_depth', 'Keys that wait for a worker.', { controller }),
    queueWaitSeconds: histogram(
      'workqueue_wait_seconds',
      'How long a key waits for a worker.',
      seconds,
      { controller },
    ),
    apiCalls: counter(
      'kube_api_calls_total',
      'Calls to the API server by verb, kind and status (0: no answer).',
      { verb, resource, status: httpStatus },
    ),
    apiCallSeconds: histogram(
      'kube_api_call_duration_seconds',
      'How long calls to the API server take.',
      seconds,
      { verb },
    ),
    watchRestarts: counter('kube_watch_restarts_total', 'Watches begun again, by kind and cause.', {
      resource,
      cause: ['timeout', 'short', 'expired', 'silent', 'connection', 'refused'],
    }),
    httpRequests: counter(
      'http_requests_total',
      'Requests to the gateway by method, route pattern and status.',
      { method: httpMethod, route, status: httpStatus },
    ),
    httpSeconds: histogram(
      'http_request_duration_seconds',
      'How long the gateway takes to answer.',
      seconds,
      { route },
    ),
    rateLimited: counter(
      'rate_limited_requests_total',
      'Requests answered with 429, by limit: reads, writes (of an owner), failed-keys (of a client address).',
      { limit: ['reads', 'writes', 'failed-keys'] },
    ),
    auditWriteFailures: new Counter(
      plain(
        'audit_write_failures_total',
        'Lines of the audit log that its file did not get, and that went to the log instead.',
      ),
    ),
    shedRequests: counter(
      'shed_requests_total',
      'Requests refused with 503 because of too much load, by kind: reads, writes.',
      { kind: ['reads', 'writes'] },
    ),
    droppedConnections: new Counter(
      plain(
        'dropped_connections_total',
        'Connections closed at once, and requests by way of a trusted proxy refused, because there were too many.',
      ),
    ),
    evictedConnections: new Counter(
      plain(
        'evicted_connections_total',
        'Connections without a request closed at the limit of all connections, each to make room for a new one.',
      ),
    ),
    webhooks: counter(
      'webhooks_total',
      'Webhooks of agents by result: notified (passed on as a notification), passed (nothing in it), limited (too many), unauthorized.',
      { result: ['notified', 'passed', 'limited', 'unauthorized'] },
    ),
    proxyWebSockets: gauge(
      'proxy_websockets',
      'WebSockets between clients and agents that are open.',
      {},
    ),
    openStreams: gauge('open_streams', 'Streams of /api/v1/stream that are open.', {}),
    streamEvents: counter('stream_events_total', 'Events sent on streams of /api/v1/stream.', {
      kind: ['snapshot', 'conversation', 'start_task', 'sandbox', 'quota', 'removed'],
    }),
    closedStreams: counter(
      'closed_streams_total',
      'Streams of /api/v1/stream that have ended, by code: key-invalid, slow-reader, stale (no connection to the API server), shutdown, max-age, client-gone (the client has closed the connection).',
      { code: ['key-invalid', 'slow-reader', 'stale', 'shutdown', 'max-age', 'client-gone'] },
    ),
    startStageSeconds: histogram(
      'start_stage_duration_seconds',
      'How long a start stays in each status.',
      stageSeconds,
      { stage: startStatuses },
    ),
    starts: counter(
      'starts_total',
      'Starts that came to an end, by outcome (READY or ERROR) and error code.',
      { outcome: ['READY', 'ERROR'], code: firstValues(100) },
    ),
    gitChecks: counter(
      'git_checks_total',
      'Repositories asked for before a start was accepted, by result: granted, denied, branch-not-found, unknown (the host could not be asked).',
      { result: ['granted', 'denied', 'branch-not-found', 'unknown'] },
    ),
    gitClones: counter(
      'git_clones_total',
      'Requests of sandboxes to git hosts, by result: stream (passed on), open (no credential is needed or there), denied, locked (a push needs a credential, and there is none), failed.',
      { result: ['stream', 'open', 'denied', 'locked', 'failed'] },
    ),
    gitPushes: counter(
      'git_pushes_total',
      'Pushes of sandboxes, by result: accepted or rejected by the git host, unknown, refused by the gateway.',
      { result: ['accepted', 'rejected', 'unknown', 'refused'] },
    ),
    modelCalls: counter(
      'model_calls_total',
      'Calls of models by API and outcome: answered, broken (what was reserved counts as spent), failed (the provider has answered with an error), not-made.',
      { api: modelApis, outcome: ['answered', 'broken', 'failed', 'not-made'] },
    ),
    modelRefusals: counter(
      'model_refusals_total',
      'Calls of models that the gateway has refused, by reason.',
      { reason: refusalKinds },
    ),
    budgetWarnings: counter(
      'budget_warnings_total',
      'Budgets of which this part of the amount was spent, in percent.',
      { percent: ['80', '90'] },
    ),
    modelFirstByteSeconds: histogram(
      'model_first_byte_seconds',
      'How long providers take to begin an answer.',
      [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300],
      { api: modelApis },
    ),
    modelWaitSeconds: histogram(
      'model_wait_seconds',
      'How long calls of models wait, by reason: RateLimit (of the provider), Share (of the limits of the key).',
      [0.1, 0.5, 1, 3, 10, 30, 60, 120],
      { reason: modelWaitReasons },
    ),
    providerFailures: counter(
      'model_provider_failures_total',
      'Calls of models at which a provider has failed, by kind.',
      { kind: providerFailureKinds },
    ),
    modelTokens: counter(
      'model_tokens_total',
      'Tokens of calls of models: input (cached ones included), cached, output.',
      { kind: ['input', 'cached', 'output'] },
    ),
    modelCost: counter(
      'model_cost_dollars_total',
      'Cost of calls of models in US dollars, as far as their prices are known.',
      {},
    ),
    pullRequests: counter(
      'pull_requests_total',
      'Pull requests that the gateway has opened, by provider of the git host.',
      { provider: firstValues(20) },
    ),
    quotaSlots: gauge(
      'quota_slots',
      'Sandboxes as quotas see them: active (they take a slot), waiting (for one), paused (by a quota, to come back).',
      { state: ['active', 'waiting', 'paused'] },
    ),
    quotaPauses: counter(
      'quota_pauses_total',
      'Sandboxes paused by the system, by reason: Newcomer, LimitLowered, Spare, Idle, MaxActiveTime, BudgetExhausted.',
      { reason: ['Newcomer', 'LimitLowered', 'Spare', 'Idle', 'MaxActiveTime', 'BudgetExhausted'] },
    ),
    admissionWaitSeconds: new Histogram({
      ...plain(
        'admission_wait_seconds',
        'Time between the request for a sandbox and its admission.',
      ),
      buckets: [...stageSeconds, 900, 3600],
    }),
    admissionDecisionSeconds: new Histogram({
      ...plain(
        'admission_decision_duration_seconds',
        'How long one decision of the quota takes, without writing it.',
      ),
      buckets: [0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.025, 0.1],
    }),
    poolStarts: counter(
      'pool_starts_total',
      'Starts from a template with a SandboxPool, by result: claimed (a warm sandbox), empty (no warm sandbox was ready), quota (the owner has no room), refused (the API server refuses the claim), share (the owner has claimed its share while others start), unfit (a volume was retained for the start, or the template fits no pool).',
      { result: ['claimed', 'empty', 'quota', 'refused', 'share', 'unfit'] },
    ),
    retentionDeletions: counter(
      'retention_deletions_total',
      'Objects deleted by retention, by kind (Conversation, Sandbox) and rule: Finished, Failed, Paused, Records.',
      { kind: ['Conversation', 'Sandbox'], rule: ['Finished', 'Failed', 'Paused', 'Records'] },
    ),
    archivedEvents: counter('archived_events_total', 'Events of agents added to archives.', {}),
    archiveFailures: counter(
      'archive_failures_total',
      'Failed attempts to archive events of agents, by reason of the condition Archived.',
      { reason: ['StoreDenied', 'StoreUnavailable', 'ArchiveDamaged', 'AgentUnreadable'] },
    ),
    archiveSeals: counter(
      'archive_seals_total',
      'Archives of conversations whose sandbox was paused, by result: complete (everything is archived), incomplete.',
      { result: ['complete', 'incomplete'] },
    ),
    archiveSealSeconds: new Histogram({
      ...plain('archive_seal_duration_seconds', 'How long a pause waits for the archive.'),
      buckets: seconds,
    }),
    archiveDeletions: counter(
      'archive_deletions_total',
      'Deleted archives by cause: Conversation (it was deleted), Orphaned (found by the sweep), Expired.',
      { cause: ['Conversation', 'Orphaned', 'Expired'] },
    ),
    archiveStoreRequests: counter(
      'archive_store_requests_total',
      'Requests to the store of archives by operation and result.',
      { operation: ['put', 'get', 'delete', 'list'], result: storeResults },
    ),
    archiveStoreSeconds: histogram(
      'archive_store_request_duration_seconds',
      'How long requests to the store of archives take.',
      seconds,
      { operation: ['put', 'get', 'delete', 'list'] },
    ),
    archiveStoreBytes: counter(
      'archive_store_bytes_total',
      'Bytes of objects written to and read from the store of archives.',
      { operation: ['put', 'get'] },
    ),
    sandboxes: gauge('sandboxes', 'Sandboxes by phase.', { phase: sandboxStatuses }),
    shardsLed: gauge(
      'shards_led',
      'Shards of namespaces that this process leads; without shards, 1 in the process that leads.',
      {},
    ),
  };
}

export type Metrics = ReturnType<typeof createMetrics>;

/** Adds memory, CPU, event loop and garbage collection of this process to the registry. */
export const collectProcessMetrics = (metrics: Metrics): void =>
  collectDefaultMetrics({ register: metrics.registry });

export interface MeasuredRuntime extends Runtime {
  readonly metrics: Metrics;
}

/**
 * A gauge for one of several leaders in a process, each of which leads one shard. The gauge of the
 * process shows the sum of the values of all leaders.
 */
class GaugeShare<L extends string> implements PlainGauge<L> {
  readonly #gauge: PlainGauge<L>;
  /** The values that this leader has set. The keys are the labels as JSON. */
  readonly #parts = new Map<string, number>();

  constructor(gauge: PlainGauge<L>) {
    this.#gauge = gauge;
  }

  set(labels: Readonly<Partial<Record<L, string>>>, value: number): void {
    this.inc(labels, value - (this.#parts.get(JSON.stringify(labels)) ?? 0));
  }

  inc(labels: Readonly<Partial<Record<L, string>>>, value = 1): void {
    const key = JSON.stringify(labels);
    this.#parts.set(key, (this.#parts.get(key) ?? 0) + value);
    this.#gauge.inc(labels, value);
  }

  dec(labels: Readonly<Partial<Record<L, string>>>, value = 1): void {
    this.inc(labels, -value);
  }

  labels(labels: Readonly<Partial<Record<L, string>>>) {
    return { set: (value: number) => this.set(labels, value) };
  }

  end(): void {
    for (const key of this.#parts.keys())
      this.set(JSON.parse(key) as Readonly<Partial<Record<L, string>>>, 0);
  }
}

/** The metrics for the leader of one shard, and a function that removes the values it has set. */
export function shareOfMetrics(metrics: Metrics): {
  readonly metrics: Metrics;
  readonly end: () => void;
} {
  const queueDepth = new GaugeShare(metrics.queueDepth);
  const quotaSlots = new GaugeShare(metrics.quotaSlots);
  const sandboxes = new GaugeShare(metrics.sandboxes);
  return {
    metrics: { ...metrics, queueDepth, quotaSlots, sandboxes },
    end: () => {
      for (const share of [queueDepth, quotaSlots, sandboxes]) share.end();
    },
  };
}
