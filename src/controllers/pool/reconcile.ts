import { isDeepStrictEqual } from 'node:util';
import { backoffDelayMs } from '@conversation-operator/base/backoff';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { Request, Result } from '@conversation-operator/kube/controller';
import { isConflict, isNotFound } from '@conversation-operator/kube/errors';
import type { EventRecorder } from '@conversation-operator/kube/events';
import type { Logger } from '@conversation-operator/base/logger';
import { NewestStore } from '@conversation-operator/kube/newest-store';
import { LRUCache } from 'lru-cache';
import { apiVersionOf, ownerReferenceTo, type NewObject } from '@conversation-operator/kube/object';
import { newUuid } from '@conversation-operator/kube/uuid';
import type { AdmissionQueue } from '../../quota/admission-queue.ts';
import { TokenBucket } from '@conversation-operator/base/token-bucket';
import { conditionUpdate, setConditions } from '../../resources/conditions.ts';
import { ownSandboxName } from '../../resources/ids.ts';
import {
  isReadySpare,
  isSpare,
  poolLabel,
  sandboxes,
  templateVersionAnnotation,
  viewOfSandbox,
  type Sandbox,
} from '../../resources/sandbox.ts';
import {
  PoolCondition,
  PoolReason,
  sandboxPools,
  type SandboxPool,
  type SandboxPoolState,
} from '../../resources/sandbox-pool.ts';
import { durationMs, type SandboxTemplate } from '../../resources/sandbox-template.ts';
import { bySparePool, type Stores } from '../caches.ts';
import { createErrorOf } from '../sandbox/create-error.ts';
import { storedObject } from '../stored-object.ts';
import { decidePool, templateVersionOf, type PoolPlan } from './decide.ts';
import type { StartCounts } from './start-counts.ts';

export interface PoolReconcilerOptions {
  readonly client: KubeClient;
  readonly stores: Pick<Stores, 'sandboxes' | 'templates' | 'pools'>;
  readonly admission: {
    queue(namespace: string): Pick<AdmissionQueue, 'roomForSpares'>;
    /** The sandboxes that admission knows, from its list at the start of this leader on. */
    sandboxes(): Iterable<Sandbox>;
  };
  readonly counts: StartCounts;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly clock: Clock;
  /** Uniform in 0..1. */
  readonly random: () => number;
  readonly logger: Logger;
}

/** Delay after a spare that did not boot: doubled with each in a row. */
const failureBackoff = { baseMs: 10_000, capMs: 5 * 60_000 };
/** Delay before a spare that the cache does not show is read. */
const unseenMs = 5_000;
/** Minimum time between two writes of the status for its rates alone. */
const ratesMs = 10_000;
const maxRemembered = 10_000;

/** The memory of this process about a pool. */
interface Memory {
  /** Identifies the pace of `bucket`. */
  readonly maxPerMinute: number;
  readonly bucket: TokenBucket;
  /**
   * Spares that the API server has stored and that the cache has not shown, by uid, with the time
   * of their creation or of their last read.
   */
  readonly unseen: Map<string, { readonly spare: Sandbox; readonly createdAt: number }>;
  /** Uids of failed spares that were counted. */
  readonly counted: Set<string>;
  failures: number;
  /** Wall clock time of the last failure. */
  failedAt: number;
  /** Monotonic time from which a spare may be created again. */
  readyAt: number;
  /** Monotonic time at which the status was last written. */
  writtenAt: number;
}

/**
 * PoolReconciler keeps the number of spares that a pool wants. A sandbox that a start has claimed
 * stays: each deletion names the version that was a spare.
 */
export class PoolReconciler {
  readonly #options: PoolReconcilerOptions;
  readonly #memories = new LRUCache<string, Memory>({ max: maxRemembered });
  readonly #newest: NewestStore<SandboxPool>;

  constructor(options: PoolReconcilerOptions) {
    this.#options = options;
    this.#newest = new NewestStore(options.stores.pools);
  }

  /** Reads a pool again, after a write has met another version than the one that was decided on. */
  async refresh({ namespace, name }: Request, signal: AbortSignal): Promise<void> {
    const stored = await this.#options.client.get(sandboxPools, namespace, name, { signal });
    if (sandboxPools.accepts?.(stored) !== false) this.#newest.observe(stored);
  }

  /** Delays the next spare of a pool after a claim, as its `refill.delay` says. */
  claimed(pool: SandboxPool): void {
    const delayMs = durationMs(pool.spec.refill.delay);
    if (delayMs === 0) return;
    const memory = this.#memoryOf(pool);
    memory.readyAt = Math.max(memory.readyAt, this.#options.clock.monotonic() + delayMs);
  }

  async reconcile({ namespace, name }: Request, signal: AbortSignal): Promise<Result> {
    const { stores, admission } = this.#options;
    const pool = this.#newest.get(namespace, name);
    // Garbage collection deletes the spares of a deleted pool.
    if (pool === undefined || pool.metadata.deletionTimestamp !== undefined) return undefined;
    const template = stores.templates.get(namespace, pool.spec.templateName);
    const spares = stores.sandboxes
      .byIndex(bySparePool, `${namespace}/${name}`)
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    const memory = this.#memoryOf(pool);
    await this.#forgetSeen(memory, signal);
    this.#countBoots(memory, spares);
    const plan = decidePool({
      pool,
      template,
      spares,
      unseen: memory.unseen.size,
      room: admission.queue(namespace).roomForSpares,
      allowance: this.#allowance(memory),
      isProbing: memory.failures > 0,
    });
    for (const spare of plan.failed) this.#countFailure(memory, pool, spare);
    for (const spare of plan.remove) await this.#delete(spare, signal);
    let refused: string | undefined;
    if (template !== undefined)
      for (let made = 0; made < plan.create && refused === undefined; made += 1)
        refused = await this.#create(memory, pool, template, signal);
    const writeAfterMs = await this.#write(pool, plan, { memory, spares, refused }, signal);
    const waits = [
      writeAfterMs,
      ...(plan.held > 0 ? [this.#nextAllowedMs(memory)] : []),
      ...(memory.unseen.size > 0 ? [unseenMs] : []),
    ].filter((ms) => ms !== undefined);
    return waits.length === 0 ? undefined : { requeueAfterMs: Math.max(1, Math.min(...waits)) };
  }

  #memoryOf(pool: SandboxPool): Memory {
    const { metadata, spec, status } = pool;
    const { uid } = metadata;
    const known = this.#memories.get(uid);
    const { maxPerMinute } = spec.refill;
    if (known?.maxPerMinute === maxPerMinute) return known;
    const { clock } = this.#options;
    const failures = status?.failures ?? 0;
    const burst = Math.max(1, Math.floor(maxPerMinute / 6));
    const intervalMs = 60_000 / Math.max(1, maxPerMinute - burst);
    const memory: Memory = {
      // A new leader waits as long as the failures before it demand.
      ...(known ?? {
        unseen: this.#known(pool),
        counted: new Set(),
        failures,
        failedAt: clock.now(),
        readyAt: failures === 0 ? 0 : clock.monotonic() + failureDelayMs(failures),
        writtenAt: -Infinity,
      }),
      maxPerMinute,
      bucket: new TokenBucket({ burst, intervalMs }),
    };
    this.#memories.set(uid, memory);
    return memory;
  }

  /**
   * The stored spares of a pool. Earlier leaders, of this process too, may have created spares that
   * the cache does not show yet.
   */
  #known({ metadata: { namespace, name } }: SandboxPool): Memory['unseen'] {
    const { admission, clock } = this.#options;
    const unseen: Memory['unseen'] = new Map();
    for (const spare of admission.sandboxes()) {
      const { metadata, spec } = spare;
      const isStored = isSpare(spare) && metadata.deletionTimestamp === undefined;
      if (isStored && metadata.namespace === namespace && spec.poolName === name)
        unseen.set(metadata.uid, { spare, createdAt: clock.monotonic() });
    }
    return unseen;
  }

  /** Number of spares that may be created now. */
  #allowance({ readyAt, bucket }: Memory): number {
    const now = this.#options.clock.monotonic();
    return now < readyAt ? 0 : bucket.availableAt(now);
  }

  #nextAllowedMs({ bucket, readyAt }: Memory): number {
    const nextMs = Math.ceil(Math.max(readyAt, bucket.readyAt) - this.#options.clock.monotonic());
    // A spare that boots after a failure is awaited; its events bring the next reconcile.
    return nextMs > 0 ? nextMs : unseenMs;
  }

  /** Forgets spares that the cache shows now, or that are gone. */
  async #forgetSeen({ unseen }: Memory, signal: AbortSignal): Promise<void> {
    const { stores, clock } = this.#options;
    for (const [uid, { spare, createdAt }] of unseen) {
      const { namespace, name } = spare.metadata;
      const isCached = stores.sandboxes.get(namespace, name)?.metadata.uid === uid;
      const isOld = clock.monotonic() - createdAt >= unseenMs;
      if (isCached || (isOld && (await this.#isGone(spare, signal)))) unseen.delete(uid);
      else if (isOld) unseen.set(uid, { spare, createdAt: clock.monotonic() });
    }
  }

  async #isGone(spare: Sandbox, signal: AbortSignal): Promise<boolean> {
    const stored = await storedObject(this.#options.client, sandboxes, spare, signal);
    return stored === undefined || stored.spec.owner !== '';
  }

  /** A spare that was created after the last failure and has booted ends the failures in a row. */
  #countBoots(memory: Memory, spares: readonly Sandbox[]): void {
    if (
      spares.some(
        (spare) =>
          isReadySpare(spare) && Date.parse(spare.metadata.creationTimestamp) >= memory.failedAt,
      )
    )
      memory.failures = 0;
  }

  #countFailure(memory: Memory, pool: SandboxPool, spare: Sandbox): void {
    const { uid, name } = spare.metadata;
    if (memory.counted.has(uid)) return;
    if (memory.counted.size >= maxRemembered) memory.counted.clear();
    memory.counted.add(uid);
    memory.failures += 1;
    memory.failedAt = this.#options.clock.now();
    memory.readyAt = this.#options.clock.monotonic() + failureDelayMs(memory.failures);
    const { reason, message } = viewOfSandbox(spare);
    this.#options.events.record(pool, {
      type: 'Warning',
      reason: PoolReason.spareFailed,
      message: `The spare ${name} did not boot (${reason}): ${message}`.slice(0, 1024),
    });
  }

  async #delete(spare: Sandbox, signal: AbortSignal): Promise<void> {
    const { namespace, name, uid, resourceVersion } = spare.metadata;
    try {
      await this.#options.client.delete(sandboxes, namespace, name, {
        uid,
        resourceVersion,
        signal,
      });
    } catch (error) {
      // A start may have claimed the spare. Any other change brings another reconcile.
      if (!isNotFound(error) && !isConflict(error)) throw error;
    }
  }

  /** Creates a spare. Returns why the API server refuses it; undefined once it is created. */
  async #create(
    memory: Memory,
    pool: SandboxPool,
    template: SandboxTemplate,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { client, clock, logger } = this.#options;
    memory.bucket.take(clock.monotonic());
    try {
      const spare = await client.create(sandboxes, this.#spareOf(pool, template), { signal });
      memory.unseen.set(spare.metadata.uid, { spare, createdAt: clock.monotonic() });
      return undefined;
    } catch (error) {
      const createError = createErrorOf(error, 'sandbox');
      if (createError === undefined) throw error;
      const { code, message } = createError;
      logger.info('creation was refused', { pool: pool.metadata.name, what: 'spare', code, error });
      memory.readyAt = clock.monotonic() + failureBackoff.baseMs;
      return message;
    }
  }

  #spareOf(pool: SandboxPool, template: SandboxTemplate): NewObject<Sandbox> {
    const { clock, random } = this.#options;
    const bytes = (count: number) =>
      Buffer.from(Array.from({ length: count }, () => Math.floor(random() * 256)));
    const { namespace, name } = pool.metadata;
    return {
      apiVersion: apiVersionOf(sandboxes),
      kind: sandboxes.kind,
      metadata: {
        name: ownSandboxName(newUuid(clock.now(), bytes)),
        namespace,
        labels: { [poolLabel]: name },
        annotations: { [templateVersionAnnotation]: templateVersionOf(template) },
        ownerReferences: [ownerReferenceTo(pool, { controller: true })],
      },
      spec: { owner: '', poolName: name, templateName: template.metadata.name, replicas: 1 },
    };
  }

  /** Writes the status where it differs. Returns the milliseconds until a delayed write is due. */
  async #write(
    pool: SandboxPool,
    { ready, reason, message, remove }: PoolPlan,
    more: {
      readonly memory: Memory;
      readonly spares: readonly Sandbox[];
      readonly refused: string | undefined;
    },
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { client, clock, counts } = this.#options;
    const { memory, spares, refused } = more;
    const { namespace, name, generation } = pool.metadata;
    const isReady = reason === PoolReason.full || reason === PoolReason.scaledToZero;
    const text =
      refused === undefined ? message : `${message} The API server refuses more: ${refused}`;
    const status: SandboxPoolState = {
      observedGeneration: generation,
      replicas: spares.length - remove.length + memory.unseen.size,
      readyReplicas: ready,
      selector: `${poolLabel}=${name}`,
      ...counts.of(namespace, pool.spec.templateName),
      ...(memory.failures === 0 ? {} : { failures: memory.failures }),
      conditions: setConditions(
        pool.status?.conditions,
        [conditionUpdate(PoolCondition.ready, isReady, reason, text.slice(0, 2048))],
        generation,
        isoTime(clock),
      ),
    };
    if (isDeepStrictEqual(status, pool.status))
      return (status.claimsPerMinute ?? 0) > 0 || status.hitRatePercent !== undefined
        ? ratesMs
        : undefined;
    const sinceMs = clock.monotonic() - memory.writtenAt;
    if (sameButRates(status, pool.status) && sinceMs < ratesMs) return ratesMs - sinceMs;
    this.#newest.observe(await client.updateStatus(sandboxPools, { ...pool, status }, { signal }));
    memory.writtenAt = clock.monotonic();
    return ratesMs;
  }
}

const failureDelayMs = (failures: number): number =>
  backoffDelayMs(failureBackoff, failures, () => 0);

/**
 * Whether two statuses differ only in what changes all the time while starts claim spares: the
 * rates and the numbers of spares.
 */
function sameButRates(one: SandboxPoolState, other: SandboxPoolState | undefined): boolean {
  const lasting = ({ conditions, failures, observedGeneration, selector }: SandboxPoolState) => ({
    conditions: conditions?.map(({ type, status, reason }) => ({ type, status, reason })),
    failures,
    observedGeneration,
    selector,
  });
  return other !== undefined && isDeepStrictEqual(lasting(one), lasting(other));
}
