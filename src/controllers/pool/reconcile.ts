import {
  type RecordingNeeds,
  requestOf,
  watch,
  type ControllerSpec,
  type EventSource,
  workers,
} from '../controller-spec.ts';
import { isDeepStrictEqual } from 'node:util';
import { isoTime } from '@conversation-operator/base/clock';
import type { Request, Result } from '@conversation-operator/kube/controller';
import { NewestStore } from '@conversation-operator/kube/store';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { isLive, type KubeObject } from '@conversation-operator/kube/object';
import type { Snapshot } from '../../quota/snapshot.ts';
import { isWarmSandbox, sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import { isReadyWarmSandbox, viewOfSandbox } from '../../status/sandbox-phase.ts';
import {
  PoolReason,
  sandboxPools,
  type SandboxPool,
  type SandboxPoolState,
} from '../../resources/sandbox-pool.ts';
import { beginningOf } from '../../resources/plain-text.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { byNamespace, byWarmSandboxPool, type Stores, type WatchedCaches } from '../caches.ts';
import type { AdmissionReads } from '../admission/reads.ts';
import { createErrorOf } from '../sandbox/create-error.ts';
import { deleteVersion, storedObject } from '../stored-object.ts';
import {
  decidePool,
  unfitness,
  type ObservedPool,
  shareOfRoom,
  poolStatus,
  newWarmSandbox,
} from './decide.ts';
import { PoolPace } from './pace.ts';

export interface PoolReconcilerOptions extends RecordingNeeds {
  /** Random numbers from 0 to below 1. */
  readonly random: () => number;
  readonly stores: Pick<Stores, 'sandboxes' | 'templates' | 'pools'>;
  readonly admission: { snapshot(namespace: string): Pick<Snapshot, 'roomForWarmSandboxes'> };
  readonly reads: Pick<AdmissionReads, 'created' | 'unseen'>;
}

/** Delay before the next reconcile while the cache lacks a created warm sandbox. */
const unseenMs = 5_000;
/** Minimum time between two writes of the status of a pool. */
const statusIntervalMs = 1_000;
const maxRemembered = 10_000;

interface Memory {
  readonly pace: PoolPace;
  creating: number;
  /** UIDs of failed warm sandboxes that `pace` has counted. */
  readonly counted: Set<string>;
  /** UIDs of existing warm sandboxes that have been ready. */
  booted: ReadonlySet<string>;
  /** Monotonic time at which the status was last written. */
  writtenAt: number;
}

/**
 * Keeps `spec.replicas` warm sandboxes for a pool. Each deletion names the resourceVersion in which
 * no start had claimed the sandbox, so no claimed sandbox is deleted.
 */
export class PoolReconciler {
  readonly #options: PoolReconcilerOptions;
  readonly #memories = recentlyUsed<Memory>(maxRemembered);
  readonly #newest: NewestStore<SandboxPool>;

  constructor(options: PoolReconcilerOptions) {
    this.#options = options;
    this.#newest = new NewestStore(options.stores.pools, options.clock);
  }

  async refresh({ namespace, name }: Request, signal: AbortSignal): Promise<void> {
    const stored = await this.#options.client.get(sandboxPools, namespace, name, { signal });
    if (sandboxPools.accepts?.(stored) !== false) this.#newest.observe(stored);
  }

  /** Delays the replacement of a warm sandbox that was just claimed, as `refill.delay` says. */
  claimed(pool: SandboxPool): void {
    this.#memoryOf(pool).pace.claimed();
  }

  async reconcile({ namespace, name }: Request, signal: AbortSignal): Promise<Result> {
    const { stores, clock } = this.#options;
    const pool = this.#newest.get(namespace, name);
    const warmSandboxes = this.#warmSandboxesOf(namespace, name);
    if (pool === undefined || !isLive(pool)) {
      await this.#deleteAll({ namespace, name }, warmSandboxes, signal);
      return undefined;
    }
    const template = stores.templates.get(namespace, pool.spec.templateName);
    const memory = this.#memoryOf(pool);
    const { pace } = memory;
    this.#observeBoots(memory, warmSandboxes);
    const plan = decidePool({
      pool,
      template,
      warmSandboxes,
      unseen: this.#unseenOf(pool),
      ...this.#roomOf(pool),
      allowance: pace.allowance,
      delayed: pace.delayed,
      isProbing: pace.failures > 0,
      booted: memory.booted,
    });
    memory.creating = plan.create;
    let refused: string | undefined;
    try {
      for (const warmSandbox of plan.failed) this.#countFailure(memory, pool, warmSandbox);
      for (const warmSandbox of plan.remove) await this.#delete(warmSandbox, signal);
      for (; template !== undefined && memory.creating > 0; memory.creating -= 1) {
        refused = await this.#create(memory, pool, template, signal);
        if (refused !== undefined) break;
      }
    } finally {
      memory.creating = 0;
    }
    const unseen = this.#unseenOf(pool);
    const status = poolStatus({
      pool,
      plan,
      warmSandboxes,
      refused,
      unseen,
      failures: pace.failures,
      now: isoTime(clock),
    });
    const writeAfterMs = await this.#write(memory, pool, status, signal);
    const waits = [
      writeAfterMs,
      ...(plan.held > 0 ? [pace.nextMs(plan.held)] : []),
      ...(unseen > 0 ? [unseenMs] : []),
    ].filter((ms) => ms !== undefined);
    return waits.length === 0 ? undefined : { requeueAfterMs: Math.max(1, Math.min(...waits)) };
  }

  /** The warm sandboxes of a pool that are not being deleted, the oldest first. */
  #warmSandboxesOf(namespace: string | undefined, name: string): readonly Sandbox[] {
    return this.#options.stores.sandboxes
      .byIndex(byWarmSandboxPool, `${namespace ?? ''}/${name}`)
      .filter(isLive);
  }

  /**
   * Deletes the warm sandboxes of a deleted pool. With owner references to the pool, the garbage
   * collector might delete a sandbox that a start has just claimed.
   */
  async #deleteAll(
    { namespace, name }: Request,
    warmSandboxes: readonly Sandbox[],
    signal: AbortSignal,
  ): Promise<void> {
    if (warmSandboxes.length === 0) return;
    const identity = { metadata: { namespace, name } };
    const stored = await storedObject(
      { client: this.#options.client, signal },
      sandboxPools,
      identity,
    );
    if (stored === undefined || !isLive(stored))
      for (const warmSandbox of warmSandboxes) await this.#delete(warmSandbox, signal);
  }

  /** The pool's share of `roomForWarmSandboxes`, and the number that no pool has used yet. */
  #roomOf(pool: SandboxPool): Pick<ObservedPool, 'room' | 'free'> {
    const { stores, admission } = this.#options;
    const { namespace, name } = pool.metadata;
    const room = admission.snapshot(namespace).roomForWarmSandboxes;
    if (room === Infinity) return { room, free: room };
    const pools = stores.pools.byIndex(byNamespace, namespace).filter(isLive);
    const wishes = pools.map(({ metadata, spec: { templateName, replicas } }) => ({
      name: metadata.name,
      wanted:
        unfitness(templateName, stores.templates.get(namespace, templateName)) === undefined
          ? replicas
          : 0,
    }));
    const taken = pools.map((each) => {
      const { creating = 0 } = this.#memories.get(each.metadata.uid) ?? {};
      return (
        this.#warmSandboxesOf(namespace, each.metadata.name).length +
        this.#unseenOf(each) +
        creating
      );
    });
    return {
      room: shareOfRoom(name, wishes, room),
      free: taken.reduce((left, count) => left - count, room),
    };
  }

  #memoryOf(pool: SandboxPool): Memory {
    const { metadata, spec, status } = pool;
    const known = this.#memories.get(metadata.uid);
    if (known !== undefined) {
      known.pace.setRefill(spec.refill);
      return known;
    }
    const memory: Memory = {
      pace: new PoolPace(this.#options.clock, spec.refill, status?.failures ?? 0),
      creating: 0,
      counted: new Set(),
      booted: new Set(),
      writtenAt: -Infinity,
    };
    this.#memories.set(metadata.uid, memory);
    return memory;
  }

  /** Number of stored warm sandboxes that the cache lacks, including those of earlier leaders. */
  #unseenOf({ metadata: { namespace, name } }: SandboxPool): number {
    return this.#options.reads
      .unseen()
      .filter((sandbox) => sandbox.metadata.namespace === namespace && isLive(sandbox))
      .filter((sandbox) => isWarmSandbox(sandbox) && sandbox.spec.poolName === name).length;
  }

  #observeBoots(memory: Memory, warmSandboxes: readonly Sandbox[]): void {
    const booted = warmSandboxes.filter(
      (warmSandbox) =>
        isReadyWarmSandbox(warmSandbox) || memory.booted.has(warmSandbox.metadata.uid),
    );
    memory.booted = new Set(booted.map(({ metadata }) => metadata.uid));
    for (const { metadata } of booted) memory.pace.booted(Date.parse(metadata.creationTimestamp));
  }

  #countFailure(memory: Memory, pool: SandboxPool, warmSandbox: Sandbox): void {
    const { uid, name } = warmSandbox.metadata;
    if (memory.counted.has(uid)) return;
    if (memory.counted.size >= maxRemembered) memory.counted.clear();
    memory.counted.add(uid);
    memory.pace.failed();
    const { reason, message } = viewOfSandbox(warmSandbox);
    this.#options.events.record(pool, {
      type: 'Warning',
      reason: PoolReason.spareFailed,
      message: beginningOf(`The warm sandbox ${name} did not boot (${reason}): ${message}`, 1024),
    });
  }

  /** Deletes a warm sandbox unless a start has claimed it. */
  #delete(warmSandbox: Sandbox, signal: AbortSignal): Promise<void> {
    return deleteVersion({ client: this.#options.client, signal }, sandboxes, warmSandbox);
  }

  /** Creates a warm sandbox. Returns why the API server rejects it; undefined after a success. */
  async #create(
    memory: Memory,
    pool: SandboxPool,
    template: SandboxTemplate,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { client, logger, reads } = this.#options;
    memory.pace.created();
    try {
      const warmSandbox = await client.create(
        sandboxes,
        newWarmSandbox(pool, template, this.#options),
        { signal },
      );
      reads.created(warmSandbox);
      return undefined;
    } catch (error) {
      const createError = createErrorOf(error, 'sandbox');
      if (createError === undefined) throw error;
      const { code, message } = createError;
      logger.info('creation was refused', { pool: pool.metadata.name, what: 'spare', code, error });
      memory.pace.refused();
      return message;
    }
  }

  /** Writes a changed status. Returns the milliseconds until a delayed write is due. */
  async #write(
    memory: Memory,
    pool: SandboxPool,
    status: SandboxPoolState,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { client, clock } = this.#options;
    if (isDeepStrictEqual(status, pool.status)) return undefined;
    const dueInMs = memory.writtenAt + statusIntervalMs - clock.monotonic();
    if (dueInMs > 0) return dueInMs;
    memory.writtenAt = clock.monotonic();
    this.#newest.observe(await client.updateStatus(sandboxPools, { ...pool, status }, { signal }));
    return undefined;
  }
}

const isEdited = ({ metadata }: KubeObject, { metadata: old }: KubeObject): boolean =>
  metadata.generation !== old.generation || metadata.deletionTimestamp !== old.deletionTimestamp;

export function poolController(
  caches: Pick<WatchedCaches, 'sandboxes' | 'templates' | 'pools' | 'quotas'>,
  reconciler: PoolReconciler,
  admission: PoolReconcilerOptions['admission'],
): ControllerSpec {
  const pools = caches.pools.store;
  const poolsIn = ({ metadata: { namespace = '' } }: KubeObject): readonly Request[] =>
    pools.byIndex(byNamespace, namespace).map(requestOf);
  /** Events of warm sandboxes, and of sandboxes that count in `maxSandboxes` of a quota. */
  const sandboxes: EventSource = (queue) => {
    const enqueue = (sandbox: Sandbox, pool: string | undefined): void => {
      const { namespace } = sandbox.metadata;
      if (pool !== undefined) queue.enqueueAfter({ namespace, name: pool }, 0);
      if (admission.snapshot(namespace).roomForWarmSandboxes < Infinity)
        for (const request of poolsIn(sandbox)) queue.enqueueAfter(request, 0);
    };
    const changed = (sandbox: Sandbox): void =>
      enqueue(sandbox, isWarmSandbox(sandbox) ? sandbox.spec.poolName : undefined);
    return caches.sandboxes.addHandler({
      added: changed,
      updated: (sandbox, old) => {
        const { poolName = '' } = sandbox.spec;
        if (isWarmSandbox(sandbox) || isEdited(sandbox, old)) changed(sandbox);
        if (isWarmSandbox(sandbox) || !isWarmSandbox(old)) return;
        const pool = pools.get(sandbox.metadata.namespace, poolName);
        if (pool !== undefined) reconciler.claimed(pool);
        enqueue(sandbox, poolName);
      },
      deleted: changed,
    });
  };
  const relevant = { isRelevant: isEdited };
  return {
    name: 'pool',
    workers: workers.pool,
    sources: [
      watch(caches.pools, (pool) => [requestOf(pool)]),
      // The pools of a namespace share its room, so an edit of one pool affects the others.
      watch(caches.pools, poolsIn, relevant),
      watch(caches.quotas, poolsIn, relevant),
      watch(caches.templates, poolsIn),
      sandboxes,
    ],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
    refresh: (request, signal) => reconciler.refresh(request, signal),
  };
}
