import type { KubeClient } from '@conversation-operator/kube/client';
import { pods } from '@conversation-operator/kube/core';
import { ApiError, isConflict, isNotFound } from '@conversation-operator/kube/errors';
import { ownerReferenceTo } from '@conversation-operator/kube/object';
import type { Logger } from '@conversation-operator/base/logger';
import type { Metrics } from '../../observability/metrics.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversationIdOf, ownSandboxName } from '../../resources/ids.ts';
import { isReadySpare, ownerAnnotation, sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import type { AdmissionCache } from '../admission/cache.ts';
import { byPoolTemplate, bySpareTemplate, type Stores } from '../caches.ts';
import { outcomeUnknown } from '../sandbox/pod-creations.ts';
import { isOutdated, unfitness } from './decide.ts';
import { ClaimShares } from './claim-shares.ts';
import type { StartCounts } from './start-counts.ts';

export interface SpareClaimsOptions {
  readonly client: KubeClient;
  readonly stores: Pick<Stores, 'sandboxes' | 'templates' | 'pools' | 'claims'>;
  readonly admission: Pick<
    AdmissionCache,
    'queue' | 'sent' | 'confirm' | 'refresh' | 'notExecuted' | 'assume' | 'isNewest'
  >;
  readonly counts: StartCounts;
  /** Called after a start from the template of a pool, whether or not it claimed a spare. */
  readonly onStart: (namespace: string, templateName: string) => void;
  readonly metrics: Pick<Metrics, 'poolStarts'>;
  readonly logger: Logger;
  readonly clock: { monotonic(): number };
  /** How long the API server may take to execute a write without an answer. Default 10 s. */
  readonly settleMs?: number;
}

/** Result of a start from the template of a pool, for the metric. */
type Result = 'claimed' | 'empty' | 'quota' | 'share' | 'unfit';

/** Maximum number of spares that one start tries to claim. */
const maxAttempts = 3;

const templateKeyOf = ({ metadata, spec }: CachedConversation): string =>
  `${metadata.namespace}/${spec.templateName}`;

const byAge = (one: Sandbox, other: Sandbox): number =>
  one.metadata.creationTimestamp === other.metadata.creationTimestamp
    ? one.metadata.name < other.metadata.name
      ? -1
      : 1
    : one.metadata.creationTimestamp < other.metadata.creationTimestamp
      ? -1
      : 1;

/**
 * SpareClaims gives starts a spare of a pool. A claim is one write: it sets the owner and replaces
 * the pool by the conversation in the owner references, on the version that was read, so that no
 * two starts get one spare. The admission cache counts the spare for its owner from the moment when
 * the write is sent, as it counts an admission.
 */
export class SpareClaims {
  readonly #options: SpareClaimsOptions;
  /** Uids of spares that a start is claiming now. */
  readonly #inClaim = new Set<string>();
  readonly #shares: ClaimShares;

  constructor(options: SpareClaimsOptions) {
    this.#options = options;
    this.#shares = new ClaimShares(options);
  }

  /**
   * Claims a spare for the start of a conversation that has no sandbox. Undefined: there is none
   * for it, so that the start is a cold one. Throws when the API server may have stored the claim.
   */
  async claim(conversation: CachedConversation, signal: AbortSignal): Promise<Sandbox | undefined> {
    const { stores } = this.#options;
    const { namespace } = conversation.metadata;
    const { templateName } = conversation.spec;
    if (stores.pools.byIndex(byPoolTemplate, `${namespace}/${templateName}`).length === 0)
      return undefined;
    this.#shares.started(templateKeyOf(conversation), conversation.spec.owner);
    const { result, sandbox } = await this.#tryToClaim(conversation, signal);
    this.#count(namespace, templateName, result);
    return sandbox;
  }

  async #tryToClaim(
    conversation: CachedConversation,
    signal: AbortSignal,
  ): Promise<{ readonly result: Result; readonly sandbox?: Sandbox }> {
    for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
      const found = this.#find(conversation);
      if (typeof found === 'string') return { result: found };
      this.#inClaim.add(found.metadata.uid);
      const takeBack = this.#shares.claimed(templateKeyOf(conversation), conversation.spec.owner);
      try {
        const sandbox = await this.#take(found, conversation, signal);
        if (sandbox !== undefined) return { result: 'claimed', sandbox };
        takeBack();
      } finally {
        this.#inClaim.delete(found.metadata.uid);
      }
    }
    return { result: 'empty' };
  }

  #count(namespace: string, templateName: string, result: Result): void {
    const { metrics, counts, onStart } = this.#options;
    metrics.poolStarts.inc({ result });
    counts.add(namespace, templateName, result === 'claimed');
    onStart(namespace, templateName);
  }

  /** The spare for a start, or why there is none. */
  #find(conversation: CachedConversation): Sandbox | Exclude<Result, 'claimed'> {
    const { stores, admission } = this.#options;
    const { namespace } = conversation.metadata;
    const { owner, templateName } = conversation.spec;
    const template = stores.templates.get(namespace, templateName);
    // A volume that was retained for the conversation has the name of its own sandbox.
    const ownVolume = stores.claims.get(namespace, ownSandboxName(conversationIdOf(conversation)));
    if (
      template === undefined ||
      unfitness(templateName, template) !== undefined ||
      ownVolume !== undefined
    )
      return 'unfit';
    if (!admission.queue(namespace).mayClaim(owner)) return 'quota';
    const spares = stores.sandboxes
      .byIndex(bySpareTemplate, `${namespace}/${templateName}`)
      .filter(
        (sandbox) =>
          isReadySpare(sandbox) &&
          !isOutdated(sandbox, template) &&
          !this.#inClaim.has(sandbox.metadata.uid) &&
          admission.isNewest(sandbox),
      )
      .sort(byAge);
    const [oldest] = spares;
    if (oldest === undefined) return 'empty';
    const mayClaim = this.#shares.mayClaim(templateKeyOf(conversation), owner, spares.length);
    return mayClaim ? oldest : 'share';
  }

  /** Claims one spare. Undefined: something has changed it, or the room for its owner. */
  async #take(
    spare: Sandbox,
    conversation: CachedConversation,
    signal: AbortSignal,
  ): Promise<Sandbox | undefined> {
    const { client, admission, clock, logger, settleMs = 10_000 } = this.#options;
    const { namespace, name, resourceVersion } = spare.metadata;
    const { owner } = conversation.spec;
    if (!(await this.#nameOwner(spare, owner, signal))) return undefined;
    // From here to the call of `sent` nothing else can take the room.
    if (!admission.queue(namespace).mayClaim(owner) || !admission.isNewest(spare)) return undefined;
    const taken = { state: 'starting', taken: true, owner } as const;
    admission.sent(spare, taken);
    const sentAt = clock.monotonic();
    try {
      const claimed = await client.mergePatch(
        sandboxes,
        namespace,
        name,
        {
          metadata: {
            resourceVersion,
            ownerReferences: [ownerReferenceTo(conversation, { controller: true })],
          },
          spec: { owner },
        },
        { signal },
      );
      admission.confirm(claimed);
      return claimed;
    } catch (error) {
      if (isConflict(error) || isNotFound(error)) {
        await admission.refresh(spare, signal);
        return undefined;
      }
      if (outcomeUnknown(error)) admission.assume(spare, { ...taken, until: sentAt + settleMs });
      else admission.notExecuted(spare);
      if (!(error instanceof ApiError) || outcomeUnknown(error) || error.status === 429)
        throw error;
      logger.warn('The claim of a spare was refused', { namespace, sandbox: name, error });
      return undefined;
    }
  }

  /**
   * Names the owner on the spare's pod, before the claim: a pod that outlives its sandbox counts
   * for the owner that the pod names. On an unclaimed spare the name has no effect.
   */
  async #nameOwner(spare: Sandbox, owner: string, signal: AbortSignal): Promise<boolean> {
    const { namespace, name } = spare.metadata;
    const { podUID } = spare.status ?? {};
    try {
      await this.#options.client.mergePatch(
        pods,
        namespace,
        name,
        { metadata: { uid: podUID, annotations: { [ownerAnnotation]: owner } } },
        { signal },
      );
      return true;
    } catch (error) {
      if (isConflict(error) || isNotFound(error)) return false;
      throw error;
    }
  }
}
