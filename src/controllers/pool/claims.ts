import type { Logger } from '@conversation-operator/base/logger';
import type { KubeClient } from '@conversation-operator/kube/client';
import { pods } from '@conversation-operator/kube/core';
import { ApiError, isConflict, isNotFound } from '@conversation-operator/kube/errors';
import { ownerReferenceTo } from '@conversation-operator/kube/object';
import type { Metrics } from '../../observability/metrics.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversationIdOf, ownSandboxName } from '../../resources/ids.ts';
import { annotationsToKeepNode } from '../../resources/pod-disruption.ts';
import { isMadeFor } from '../../resources/sandbox-owner-references.ts';
import { ownerAnnotation, sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import { isReadyWarmSandbox } from '../../status/sandbox-phase.ts';
import type { AdmissionCache } from '../admission/cache.ts';
import { byPoolTemplate, byWarmSandboxTemplate, type Stores } from '../caches.ts';
import { outcomeUnknown } from '../sandbox/pod-creations.ts';
import { storedObject } from '../stored-object.ts';
import { isOutdated, unfitness } from './decide.ts';
import type { Clock } from '@conversation-operator/base/clock';

/** Milliseconds for which a start counts: longer than a pool takes to replace a warm sandbox. */
const windowMs = 60_000;
/** Maximum claims in memory for each owner and template. */
const maxRemembered = 1_000;

interface OwnerStarts {
  lastStart: number;
  /** Monotonic times of the claims, the oldest first. */
  claims: number[];
}

/**
 * Divides the warm sandboxes of a template fairly between owners with a start in the last minute.
 * If there is only one, this owner may claim all. Otherwise each owner may claim an equal part of
 * the sandboxes that are ready or were claimed in that minute, so that starts and deletions in a
 * loop leave the other owners their part. Starts are in memory only; a new leader begins without
 * any.
 */
export class ClaimShares {
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** Starts by owner, for each template with starts in the last minute. */
  readonly #byTemplate = new Map<string, Map<string, OwnerStarts>>();

  constructor({ clock }: { readonly clock: Pick<Clock, 'monotonic'> }) {
    this.#clock = clock;
  }

  /** Records a start, whether or not it claims a warm sandbox. */
  started(template: string, owner: string): void {
    const now = this.#clock.monotonic();
    const owners = this.#recent(template, now) ?? new Map<string, OwnerStarts>();
    this.#byTemplate.set(template, owners);
    const starts = owners.get(owner) ?? { lastStart: now, claims: [] };
    starts.lastStart = now;
    owners.set(owner, starts);
  }

  mayClaim(template: string, owner: string, ready: number): boolean {
    const owners = this.#recent(template, this.#clock.monotonic());
    if (owners === undefined || owners.size < 2) return true;
    const claimed = [...owners.values()].reduce((sum, { claims }) => sum + claims.length, 0);
    const own = owners.get(owner)?.claims.length ?? 0;
    return own < Math.ceil((claimed + ready) / owners.size);
  }

  /** Counts a claim when it is sent. The returned function removes the claim if it failed. */
  claimed(template: string, owner: string): () => void {
    const claims = this.#byTemplate.get(template)?.get(owner)?.claims ?? [];
    const at = this.#clock.monotonic();
    claims.push(at);
    if (claims.length > maxRemembered) claims.shift();
    return () => {
      const index = claims.lastIndexOf(at);
      if (index >= 0) claims.splice(index, 1);
    };
  }

  /** Owners with a start in the last minute; undefined if there is none. */
  #recent(template: string, now: number): Map<string, OwnerStarts> | undefined {
    const owners = this.#byTemplate.get(template);
    if (owners === undefined) return undefined;
    for (const [owner, starts] of owners) {
      if (now - starts.lastStart >= windowMs) owners.delete(owner);
      else while ((starts.claims[0] ?? now) <= now - windowMs) starts.claims.shift();
    }
    if (owners.size === 0) this.#byTemplate.delete(template);
    return owners.size === 0 ? undefined : owners;
  }
}

export interface WarmSandboxClaimsOptions {
  readonly client: KubeClient;
  readonly logger: Logger;
  readonly stores: Pick<Stores, 'sandboxes' | 'templates' | 'pools' | 'claims'>;
  readonly admission: Pick<
    AdmissionCache,
    'snapshot' | 'sent' | 'confirm' | 'notExecuted' | 'assume' | 'isNewest'
  >;
  readonly metrics: Pick<Metrics, 'poolStarts'>;
  readonly clock: { monotonic(): number };
  /** Time after which a write without a response is either executed or lost. Default 10,000 ms. */
  readonly settleMs?: number;
}

/** Label of the metric `poolStarts`: the result of a start with the template of a pool. */
type Result = 'claimed' | 'empty' | 'quota' | 'refused' | 'share' | 'unfit';

const maxAttempts = 3;

const templateKeyOf = ({ metadata, spec }: CachedConversation): string =>
  `${metadata.namespace}/${spec.templateName}`;

const ageKeyOf = ({ metadata: { creationTimestamp, name } }: Sandbox): string =>
  `${creationTimestamp}/${name}`;
const byAge = (one: Sandbox, other: Sandbox): number => (ageKeyOf(one) < ageKeyOf(other) ? -1 : 1);

/**
 * Claims warm sandboxes for starts of conversations. A claim is one patch, which sets the owner and
 * the owner reference to the conversation. The patch has the resourceVersion that was read, so that
 * no two starts claim the same sandbox. `AdmissionCache` counts the sandbox for the new owner from
 * the moment when the patch is sent.
 */
export class WarmSandboxClaims {
  readonly #options: WarmSandboxClaimsOptions;
  readonly #inClaim = new Set<string>();
  readonly #shares: ClaimShares;

  constructor(options: WarmSandboxClaimsOptions) {
    this.#options = options;
    this.#shares = new ClaimShares(options);
  }

  /**
   * Claims a warm sandbox for a conversation without a sandbox. Returns undefined when none is
   * available or the API server rejects the claim; the caller then creates a sandbox. Throws when
   * the API server does not answer.
   */
  async claim(conversation: CachedConversation, signal: AbortSignal): Promise<Sandbox | undefined> {
    const { stores, metrics } = this.#options;
    const { namespace } = conversation.metadata;
    const { templateName } = conversation.spec;
    if (stores.pools.byIndex(byPoolTemplate, `${namespace}/${templateName}`).length === 0)
      return undefined;
    this.#shares.started(templateKeyOf(conversation), conversation.spec.owner);
    const { result, sandbox } = await this.#tryToClaim(conversation, signal);
    metrics.poolStarts.inc({ result });
    return sandbox;
  }

  async #tryToClaim(
    conversation: CachedConversation,
    signal: AbortSignal,
  ): Promise<{ readonly result: Result; readonly sandbox?: Sandbox }> {
    const { logger } = this.#options;
    const tried = new Set<string>();
    while (tried.size < maxAttempts) {
      const warmSandbox = this.#find(conversation, tried);
      if (typeof warmSandbox === 'string') return { result: warmSandbox };
      const { uid, namespace, name } = warmSandbox.metadata;
      tried.add(uid);
      this.#inClaim.add(uid);
      const takeBack = this.#shares.claimed(templateKeyOf(conversation), conversation.spec.owner);
      try {
        const sandbox = await this.#take(warmSandbox, conversation, signal);
        if (sandbox !== undefined) return { result: 'claimed', sandbox };
        takeBack();
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        takeBack();
        if (isConflict(error) || isNotFound(error)) continue;
        logger.warn('The claim of a warm sandbox was refused', { namespace, sandbox: name, error });
        return { result: 'refused' };
      } finally {
        this.#inClaim.delete(uid);
      }
    }
    return { result: 'empty' };
  }

  /** The warm sandbox for a start, except those in `tried`, or the reason why there is none. */
  #find(
    conversation: CachedConversation,
    tried: ReadonlySet<string>,
  ): Sandbox | Exclude<Result, 'claimed' | 'refused'> {
    const { stores, admission } = this.#options;
    const { namespace } = conversation.metadata;
    const { owner, templateName } = conversation.spec;
    const template = stores.templates.get(namespace, templateName);
    // A retained volume has the name of the conversation's own sandbox; no warm sandbox mounts it.
    const ownVolume = stores.claims.get(namespace, ownSandboxName(conversationIdOf(conversation)));
    if (
      template === undefined ||
      unfitness(templateName, template) !== undefined ||
      ownVolume !== undefined
    )
      return 'unfit';
    if (!admission.snapshot(namespace).mayClaim(owner)) return 'quota';
    const warmSandboxes = stores.sandboxes
      .byIndex(byWarmSandboxTemplate, `${namespace}/${templateName}`)
      .filter(
        (sandbox) =>
          isReadyWarmSandbox(sandbox) &&
          !isOutdated(sandbox, template) &&
          !tried.has(sandbox.metadata.uid) &&
          !this.#inClaim.has(sandbox.metadata.uid) &&
          this.#isKept(sandbox) &&
          admission.isNewest(sandbox),
      )
      .sort(byAge);
    const [oldest] = warmSandboxes;
    if (oldest === undefined) return 'empty';
    const mayClaim = this.#shares.mayClaim(
      templateKeyOf(conversation),
      owner,
      warmSandboxes.length,
    );
    return mayClaim ? oldest : 'share';
  }

  /** Whether the pool of a warm sandbox exists. A deleted pool deletes its warm sandboxes. */
  #isKept({ metadata: { namespace }, spec: { poolName = '' } }: Sandbox): boolean {
    const pool = this.#options.stores.pools.get(namespace, poolName);
    return pool !== undefined && pool.metadata.deletionTimestamp === undefined;
  }

  /** Claims this warm sandbox; undefined if another start has used up the limit of the owner. */
  async #take(
    warmSandbox: Sandbox,
    conversation: CachedConversation,
    signal: AbortSignal,
  ): Promise<Sandbox | undefined> {
    const { client, admission, clock, settleMs = 10_000 } = this.#options;
    const { owner } = conversation.spec;
    await this.#claimPod(warmSandbox, owner, signal);
    // No `await` is between this check and `sent`, so no other start can use up the limit.
    if (
      !admission.snapshot(warmSandbox.metadata.namespace).mayClaim(owner) ||
      !admission.isNewest(warmSandbox)
    )
      return undefined;
    const taken = { state: 'starting', taken: true, owner } as const;
    admission.sent(warmSandbox, taken, conversation);
    const sentAt = clock.monotonic();
    // Error of the first attempt, which the API server may have executed.
    let doubt: unknown;
    try {
      const claimed = await this.#send(warmSandbox, conversation, signal).catch(
        (error: unknown) => {
          if (!outcomeUnknown(error)) throw error;
          doubt = error;
          // Both attempts have the same resourceVersion, so at most one of them is executed.
          return this.#send(warmSandbox, conversation, signal);
        },
      );
      admission.confirm(claimed);
      return claimed;
    } catch (error) {
      const hasChanged = isConflict(error) || isNotFound(error);
      if (doubt === undefined && !hasChanged) admission.notExecuted(warmSandbox);
      else admission.assume(warmSandbox, { ...taken, until: sentAt + settleMs });
      // A read shows whether an attempt was executed if the version has changed, or if the API
      // server has answered both attempts. Otherwise, an attempt may be executed after the read.
      if (hasChanged || (doubt instanceof ApiError && error instanceof ApiError)) {
        const stored = await storedObject({ client, signal }, sandboxes, warmSandbox);
        if (stored === undefined) admission.notExecuted(warmSandbox);
        else admission.confirm(stored);
        if (stored !== undefined && isMadeFor(conversation, stored)) return stored;
      }
      throw error;
    }
  }

  #send(
    warmSandbox: Sandbox,
    conversation: CachedConversation,
    signal: AbortSignal,
  ): Promise<Sandbox> {
    const { namespace, name, resourceVersion } = warmSandbox.metadata;
    const ownerReferences = [ownerReferenceTo(conversation, { controller: true })];
    return this.#options.client.mergePatch(
      sandboxes,
      namespace,
      name,
      { metadata: { resourceVersion, ownerReferences }, spec: { owner: conversation.spec.owner } },
      { signal },
    );
  }

  /**
   * Annotates the pod before the claim. A pod that outlives its sandbox counts in the quota of the
   * owner in `ownerAnnotation`. If the claim fails, that annotation has no effect. The annotations
   * of `annotationsToKeepNode` keep an autoscaler from removing the node. If the claim fails,
   * `DisruptionReconciler` resets them after a minute.
   */
  async #claimPod(warmSandbox: Sandbox, owner: string, signal: AbortSignal): Promise<void> {
    const { namespace, name } = warmSandbox.metadata;
    const template = this.#options.stores.templates.get(namespace, warmSandbox.spec.templateName);
    const annotations = { ...annotationsToKeepNode(template), [ownerAnnotation]: owner };
    const metadata = { uid: warmSandbox.status?.podUID, annotations };
    await this.#options.client.mergePatch(pods, namespace, name, { metadata }, { signal });
  }
}
