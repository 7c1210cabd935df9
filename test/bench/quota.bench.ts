import { AdmissionCache } from '../../src/controllers/admission/cache.ts';
import { AdmissionReads } from '../../src/controllers/admission/reads.ts';
import { AdmissionReconciler } from '../../src/controllers/admission/reconcile.ts';
import { QuotaStatusReconciler } from '../../src/controllers/admission/quota-status.ts';
import { bySandbox, sandboxIndexers } from '../../src/controllers/caches.ts';
import { PodCreations } from '../../src/controllers/sandbox/pod-creations.ts';
import { systemClock } from '@conversation-operator/base/clock';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { IndexedStore } from '@conversation-operator/kube/store';
import type { Transport } from '@conversation-operator/kube/transport';
import { silentLogger } from '@conversation-operator/base/logger';
import { createMetrics } from '../../src/observability/metrics.ts';
import { conditionUpdate, setConditions } from '../../src/resources/conditions.ts';
import type { CachedConversation } from '../../src/resources/cached-conversation.ts';
import type {
  ConversationQuota,
  ConversationQuotaSpec,
} from '../../src/resources/conversation-quota.ts';
import type { Pod } from '@conversation-operator/kube/core';
import { apiVersion } from '../../src/resources/group.ts';
import type { SandboxTemplate } from '../../src/resources/sandbox-template.ts';
import type { ObjectMeta } from '@conversation-operator/kube/object';
import {
  resumeRequestedAnnotation,
  SandboxCondition,
  type Sandbox,
  type SandboxState,
} from '../../src/resources/sandbox.ts';
import { slotTaken } from '../../src/status/sandbox-phase.ts';
import { percentile, report } from './figure.ts';
import { sandboxText } from './sandbox-text.ts';

/**
 * The quotas of one namespace: what a decision costs, from a change until what follows from it is
 * handed to the client.
 */
const sandboxCount = 100_000;
const ownerCount = 10_000;
const activePerOwner = 5;
const rounds = 20_000;
const pageSize = 500;
const namespace = 'agents';
const start = Date.UTC(2026, 2, 1, 12);

let seed = 1;
const random = (): number => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647;
const pick = (count: number): number => Math.floor(random() * count);
let version = sandboxCount * 3;
const nextVersion = (): string => String(++version);
const timeOf = (index: number): string => new Date(start + index * 1000).toISOString();

function* numbers(count: number): Generator<number, void, undefined> {
  for (let index = 0; index < count; index++) yield index;
}

/** Ten of each owner: five run, three were paused by the quota, two by their owner. */
function aSandbox(index: number): Sandbox {
  const object = JSON.parse(sandboxText(index, index + 1)) as Sandbox;
  const { managedFields: _fields, ...metadata } = object.metadata as Sandbox['metadata'] &
    Pick<ObjectMeta, 'managedFields'>;
  const place = Math.floor(index / ownerCount);
  const runs = place < activePerOwner;
  const time = timeOf(pick(86_400));
  const update = conditionUpdate(SandboxCondition.admitted, runs, runs ? 'Admitted' : 'Quota', '');
  const conditions = setConditions(object.status?.conditions, [update], 1, time);
  return {
    ...object,
    metadata,
    spec: { ...object.spec, owner: `user-${index % ownerCount}`, replicas: place < 8 ? 1 : 0 },
    status: { ...object.status, replicas: runs ? 1 : 0, activeSinceTime: time, conditions },
  };
}

function aConversation({ metadata, spec }: Sandbox, index: number): CachedConversation {
  const [made] = metadata.ownerReferences ?? [];
  return {
    apiVersion,
    kind: 'Conversation',
    metadata: {
      ...metadata,
      name: made?.name ?? '',
      uid: made?.uid ?? '',
      resourceVersion: String(index + 1),
    },
    spec: { owner: spec.owner, templateName: 'default' },
    storedBytes: 500,
    firstWords: '',
    lacksSteps: false,
    status: {
      start: { status: 'READY', transitions: [] },
      sandboxName: metadata.name,
      executionStatus: index % 3 === 0 ? 'running' : 'finished',
      lastActivityTime: timeOf(index),
    },
  };
}

const aQuota = (
  name: string,
  spec: Partial<ConversationQuotaSpec>,
  generation = 1,
): ConversationQuota => ({
  apiVersion,
  kind: 'ConversationQuota',
  metadata: {
    name,
    namespace,
    uid: name,
    resourceVersion: nextVersion(),
    generation,
    creationTimestamp: timeOf(0),
  },
  spec: {
    scope: 'Owner',
    limit: activePerOwner,
    onExceeded: 'PauseOldest',
    minActiveSeconds: 0,
    autoResume: 'All',
    ...spec,
  },
});

const template: SandboxTemplate = {
  apiVersion,
  kind: 'SandboxTemplate',
  metadata: {
    name: 'default',
    namespace,
    uid: 'template',
    resourceVersion: '1',
    generation: 1,
    creationTimestamp: timeOf(0),
  },
  spec: {
    podTemplate: { spec: { containers: [{ name: 'agent', image: 'agent:1' }] } },
    agent: { port: 8000, workingDir: '/workspace' },
    storage: { size: '1Gi', retain: false },
    startDeadline: '5m',
    idleTimeout: '87600h',
  },
};

const stores = {
  sandboxes: new IndexedStore<Sandbox>(sandboxIndexers),
  conversations: new IndexedStore<CachedConversation>({
    [bySandbox]: ({ status }) => [`${namespace}/${status?.sandboxName ?? ''}`],
  }),
  templates: new IndexedStore<SandboxTemplate>(),
  quotas: new IndexedStore<ConversationQuota>(),
  pods: new IndexedStore<Pod>(),
};

/**
 * Processor time of this thread, in milliseconds: the work of one core, whatever else the machine
 * does.
 */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** From the change, or from the answer to the decision before, until a decision is sent. */
let began = 0;
let beganAt = 0;
let samples: number[] = [];
let elapsed: number[] = [];
const written: Sandbox[] = [];
let pages: readonly string[] = [];

function mark(): void {
  began = cpuMs();
  beganAt = performance.now();
}

/** The answer of the API server to a replaced status. */
function patched(path: string, body: unknown): Sandbox {
  const name = path.split('/').at(-2) ?? '';
  const known = stores.sandboxes.get(namespace, name);
  const status = (body as readonly { readonly path: string; readonly value: unknown }[]).find(
    (operation) => operation.path === '/status',
  );
  if (known === undefined || status === undefined)
    throw new Error(`a status of ${name} was not expected`);
  return {
    ...known,
    metadata: { ...known.metadata, resourceVersion: nextVersion() },
    status: status.value as SandboxState,
  };
}

/** The API server: it answers at once. */
const transport: Pick<Transport, 'call' | 'stream'> = {
  call: ({ verb, resource, path, body }) => {
    if (verb === 'patch' && resource === 'sandboxes') {
      samples.push(cpuMs() - began);
      elapsed.push(performance.now() - beganAt);
      const stored = patched(path, body);
      written.push(stored);
      mark();
      return Promise.resolve(stored);
    }
    // The status of a quota does not come back here, so each round of its reconcile is a whole one.
    if (verb === 'patch' && resource === 'conversationquotas')
      return Promise.resolve(stores.quotas.get(namespace, path.split('/').at(-2) ?? ''));
    if (verb !== 'list')
      return Promise.reject(new Error(`${verb} of ${resource} was not expected`));
    if (resource !== 'sandboxes') {
      const items = resource === 'conversationquotas' ? stores.quotas.list() : [];
      return Promise.resolve({ metadata: { resourceVersion: '1' }, items });
    }
    const page = Number(new URL(path, 'http://localhost').searchParams.get('continue') ?? 0);
    const next = page + 1 < pages.length ? { continue: String(page + 1) } : {};
    const items = JSON.parse(pages[page] ?? '[]') as unknown;
    return Promise.resolve({ metadata: { resourceVersion: '1', ...next }, items });
  },
  stream: () => Promise.reject(new Error('nothing is watched')),
};
const client = new HttpKubeClient({ transport });

const options = {
  client,
  stores,
  namespace,
  clock: systemClock,
  logger: silentLogger,
  metrics: createMetrics(),
};
const ignored = { enqueue: () => undefined };
const channels = { admission: ignored, lookup: ignored, quota: ignored };
const podCreations = new PodCreations(systemClock);
const newAdmission = (): AdmissionCache => new AdmissionCache({ ...options, channels });
const readsOf = (cache: AdmissionCache): AdmissionReads =>
  new AdmissionReads({ ...options, cache, channels, podCreations });
const { signal } = new AbortController();
const decide = (cache: AdmissionCache) =>
  new AdmissionReconciler({
    ...options,
    cache,
    reads: readsOf(cache),
    podCreations,
    keys: { currentKeyId: 'key' },
    events: { record: () => undefined },
  }).reconcile({ namespace, name: '' }, signal);

/** A change that a watch shows. */
function changed(admission: AdmissionCache, sandbox: Sandbox): void {
  const next = { ...sandbox, metadata: { ...sandbox.metadata, resourceVersion: nextVersion() } };
  stores.sandboxes.set(next);
  mark();
  admission.observe(next);
}

/**
 * Decides, and lets the node obey: what is admitted runs, what is not has no pod any more. Until
 * nothing follows.
 */
async function settle(admission: AdmissionCache): Promise<void> {
  await decide(admission);
  for (let sandbox = written.shift(); sandbox !== undefined; sandbox = written.shift()) {
    stores.sandboxes.set(sandbox);
    admission.observe(sandbox);
    const admitted = sandbox.status?.conditions?.some(
      ({ type, status }) => type === SandboxCondition.admitted && status === 'True',
    );
    if (
      slotTaken(sandbox) &&
      (admitted === true ? sandbox.status?.replicas === 1 : sandbox.status?.replicas === 0)
    )
      continue;
    if (!slotTaken(sandbox)) continue;
    changed(admission, {
      ...sandbox,
      status: {
        ...sandbox.status,
        replicas: admitted === true ? 1 : 0,
        ...(admitted === true ? { activeSinceTime: new Date().toISOString() } : {}),
      },
    });
    await decide(admission);
  }
}

const scaled = (sandbox: Sandbox, replicas: 0 | 1): Sandbox => ({
  ...sandbox,
  metadata: { ...sandbox.metadata, generation: sandbox.metadata.generation + 1 },
  spec: { ...sandbox.spec, replicas },
});
const askedFor = (sandbox: Sandbox): Sandbox => ({
  ...sandbox,
  metadata: {
    ...sandbox.metadata,
    annotations: { [resumeRequestedAnnotation]: new Date().toISOString() },
  },
});

const ownQuotas = new Map<string, number>();
function setQuota(
  admission: AdmissionCache,
  name: string,
  spec: Partial<ConversationQuotaSpec>,
): void {
  const generation = (ownQuotas.get(name) ?? 1) + 1;
  ownQuotas.set(name, generation);
  const quota = aQuota(name, spec, generation);
  stores.quotas.set(quota);
  mark();
  admission.observeQuota(quota);
}

/** One thing that people do: start, pause, resume, work, or change the quota of one owner. */
async function somethingHappens(admission: AdmissionCache): Promise<void> {
  const sandbox = stores.sandboxes.get(namespace, sandboxNames[pick(sandboxCount)] ?? '');
  if (sandbox === undefined) throw new Error('it is gone');
  const dice = random();
  if (dice < 0.02) {
    setQuota(admission, `for-${sandbox.spec.owner}`, {
      owner: sandbox.spec.owner,
      limit: 3 + pick(4),
    });
  } else if (sandbox.spec.replicas === 0) {
    changed(admission, scaled(sandbox, 1));
  } else if (!slotTaken(sandbox)) {
    changed(admission, askedFor(sandbox));
  } else if (dice < 0.5) {
    changed(admission, scaled(sandbox, 0));
    await settle(admission);
    const seen = stores.sandboxes.get(namespace, sandbox.metadata.name) ?? sandbox;
    changed(admission, { ...seen, status: { ...seen.status, replicas: 0 } });
  } else {
    const [conversation] = stores.conversations.byIndex(
      bySandbox,
      `${namespace}/${sandbox.metadata.name}`,
    );
    if (conversation === undefined) throw new Error('it has no conversation');
    const executionStatus =
      conversation.status?.executionStatus === 'running' ? 'finished' : 'running';
    const next: CachedConversation = {
      ...conversation,
      status: { ...conversation.status, executionStatus },
    };
    stores.conversations.set(next);
    mark();
    admission.observeConversation(next);
  }
  await settle(admission);
}

function pagesOf(all: readonly Sandbox[]): readonly string[] {
  return [...numbers(Math.ceil(all.length / pageSize))].map((page) =>
    JSON.stringify(all.slice(page * pageSize, (page + 1) * pageSize)),
  );
}

/**
 * As in the operator: a list, then the notifications of its caches. Milliseconds of CPU until the
 * first decision is sent.
 */
async function restartMs(): Promise<{ readonly cpu: number; readonly wall: number }> {
  pages = pagesOf(stores.sandboxes.list());
  globalThis.gc?.();
  samples = [];
  elapsed = [];
  const from = cpuMs();
  const wallFrom = performance.now();
  const admission = newAdmission();
  (await readsOf(admission).seed())();
  for (const quota of stores.quotas.list()) admission.observeQuota(quota);
  for (const sandbox of stores.sandboxes.list()) admission.observe(sandbox);
  for (const conversation of stores.conversations.list())
    admission.observeConversation(conversation);
  for (const known of stores.templates.list()) admission.observeTemplate(known);
  const ready = { cpu: cpuMs() - from, wall: performance.now() - wallFrom };
  mark();
  await settle(admission);
  const [first] = samples;
  if (first === undefined) throw new Error('nothing was decided');
  return { cpu: ready.cpu + first, wall: ready.wall + (elapsed[0] ?? 0) };
}

const sandboxNames: string[] = [];
for (const index of numbers(sandboxCount)) {
  const sandbox = aSandbox(index);
  sandboxNames.push(sandbox.metadata.name);
  stores.sandboxes.set(sandbox);
  stores.conversations.set(aConversation(sandbox, index));
}
stores.templates.set(template);
stores.quotas.set(aQuota('default', {}));
stores.quotas.set(aQuota('all', { scope: 'Namespace', limit: ownerCount * activePerOwner }));
pages = pagesOf(stores.sandboxes.list());

const admission = newAdmission();
(await readsOf(admission).seed())();
await settle(admission);
for (let round = 0; round < 2000; round++) await somethingHappens(admission);
samples = [];
elapsed = [];
const beforeAll = cpuMs();
for (let round = 0; round < rounds; round++) await somethingHappens(admission);
const decisions = `of ${samples.length.toLocaleString('en')} decisions, ${sandboxCount.toLocaleString('en')} sandboxes of ${ownerCount.toLocaleString('en')} owners`;
report({
  what: `p99 ${decisions}`,
  value: percentile(samples, 0.99),
  unit: 'ms of CPU',
  target: { atMost: 5 },
});
report({
  what: 'the same by the clock, whatever else the machine does',
  value: percentile(elapsed, 0.99),
  unit: 'ms',
});
report({ what: 'p50 of those', value: percentile(elapsed, 0.5) * 1000, unit: 'µs' });
report({
  what: 'everything together, for each of them',
  value: ((cpuMs() - beforeAll) / samples.length) * 1000,
  unit: 'µs of CPU',
});
report({ what: 'slowest of those', value: Math.max(...samples), unit: 'ms of CPU' });

/** The one decision that finds other rules, and all that follow from it. */
async function changeOf(
  what: string,
  name: string,
  spec: Partial<ConversationQuotaSpec>,
): Promise<void> {
  samples = [];
  setQuota(admission, name, spec);
  await settle(admission);
  const { length } = samples;
  const followed = length === 0 ? 'none follows' : `of ${length.toLocaleString('en')}`;
  report({
    what: `${what}: first decision (${followed})`,
    value: length === 0 ? cpuMs() - began : (samples[0] ?? 0),
    unit: 'ms of CPU',
  });
  if (length > 1)
    report({
      what: '  p99 of those that follow',
      value: percentile(samples.slice(1), 0.99),
      unit: 'ms of CPU',
      target: { atMost: 5 },
    });
}
const cap = ownerCount * activePerOwner;
const changes: number[] = [];
for (let round = 0; round < 200; round++) {
  samples = [];
  const owner = `user-${pick(ownerCount)}`;
  setQuota(admission, `for-${owner}`, { owner, limit: 1 + pick(4) });
  await settle(admission);
  changes.push(samples[0] ?? cpuMs() - began);
}
report({
  what: "p99 of the first decision after a change of one owner's quota",
  value: percentile(changes, 0.99),
  unit: 'ms of CPU',
});
await changeOf('cap on all owners raised', 'all', { scope: 'Namespace', limit: cap + 1000 });
await changeOf('its policy changed', 'all', {
  scope: 'Namespace',
  limit: cap + 1000,
  onExceeded: 'PauseLongestIdle',
});
await changeOf('it lowered by a fifth', 'all', {
  scope: 'Namespace',
  limit: cap * 0.8,
  onExceeded: 'PauseLongestIdle',
});
await changeOf('it and its policy as at first', 'all', { scope: 'Namespace', limit: cap });
await changeOf('default of all owners lowered by two', 'default', { limit: activePerOwner - 2 });
await changeOf('it raised again', 'default', {});

const quotaStatus = new QuotaStatusReconciler({
  client,
  stores,
  clock: systemClock,
  cache: admission,
});
const beforeStatus = cpuMs();
for (let round = 0; round < 20; round++)
  await quotaStatus.reconcile({ namespace, name: 'default' }, signal);
report({
  what: `status of the default, over all owners`,
  value: (cpuMs() - beforeStatus) / 20,
  unit: 'ms of CPU',
});

const restarts: Awaited<ReturnType<typeof restartMs>>[] = [];
for (const sandbox of stores.sandboxes
  .list()
  .filter(({ spec }) => spec.replicas === 0)
  .slice(0, 3)) {
  const { metadata, ...asking } = scaled(sandbox, 1);
  stores.sandboxes.set({ ...asking, metadata: { ...metadata, resourceVersion: nextVersion() } });
  restarts.push(await restartMs());
}
const median = (of: (restart: (typeof restarts)[number]) => number): number =>
  percentile(restarts.map(of), 0.5) / 1000;
report({
  what: 'restart, from filled caches over a list to the first decision sent',
  value: median(({ wall }) => wall),
  unit: 's',
  target: { atMost: 10 },
});
report({ what: 'CPU time of that', value: median(({ cpu }) => cpu), unit: 's of CPU' });
