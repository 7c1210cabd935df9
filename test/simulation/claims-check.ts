import { isStartOver, startStatusOf, type Conversation } from '../../src/resources/conversation.ts';
import { sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import { shouldRun } from '../../src/status/sandbox-phase.ts';
import type { AdmissionCheck } from './admission-check.ts';
import type { Change, Cluster } from './cluster.ts';
import { isMadeFor } from './made-for.ts';
import type { SimulatedNode } from './node.ts';
import { Violation } from './safety.ts';
import { isAnswering } from './sandbox-duties.ts';
import type { Scheduler } from './scheduler.ts';

export interface ClaimsCheckOptions {
  readonly cluster: Cluster;
  readonly node: SimulatedNode;
  readonly scheduler: Scheduler;
  readonly admissionCheck: Pick<AdmissionCheck, 'surelyHasRoomFor'>;
  readonly isOperator: (actor: string) => boolean;
  /** Whether the warm sandbox is of an earlier version of its template. */
  readonly isOutdated: (warmSandbox: Sandbox) => boolean;
}

/** Maximum time from a warm sandbox's first answer until every operator knows that it is ready. */
const knownMs = 15_000;
/** Time for which a claim counts against the share of its owner, and a delay of the watch. */
const shareMs = 62_000;

/**
 * While warm sandboxes are ready, the starts of their template are claims: a start whose owner has
 * room, and has claimed no warm sandbox in the last minute, never gets a new sandbox. The check
 * knows warm sandboxes by their agents.
 */
export class ClaimsCheck {
  readonly #options: ClaimsCheckOptions;
  /** Times since when agents answer, by the id of the agent. */
  readonly #answering = new Map<string, number>();
  /** Time of the last claim, by owner. */
  readonly #lastClaim = new Map<string, number>();

  constructor(options: ClaimsCheckOptions) {
    this.#options = options;
    options.cluster.onChange((change) => this.#observe(change));
  }

  /** Called at every step. */
  check(): void {
    const now = this.#options.scheduler.monotonic();
    for (const agent of this.#options.node.running)
      if (!isAnswering(agent, now)) this.#answering.delete(agent.id);
      else if (!this.#answering.has(agent.id)) this.#answering.set(agent.id, now);
  }

  #observe({ plural, type, object, before, actor }: Change): void {
    if (plural !== sandboxes.plural || !this.#options.isOperator(actor)) return;
    const { owner } = (object as Sandbox).spec;
    const isClaim = type === 'MODIFIED' && (before as Sandbox | undefined)?.spec.owner !== owner;
    if (isClaim) this.#lastClaim.set(owner, this.#options.scheduler.monotonic());
    if (type === 'ADDED' && owner !== '') this.#created(object as Sandbox);
  }

  #created(sandbox: Sandbox): void {
    const { cluster, scheduler, admissionCheck } = this.#options;
    const { owner } = sandbox.spec;
    const { name } = sandbox.metadata;
    const hasVolume = cluster.claims.some(({ metadata }) => metadata.name === name);
    const lastClaim = this.#lastClaim.get(owner) ?? -Infinity;
    if (hasVolume || scheduler.monotonic() - lastClaim < shareMs) return;
    const others = cluster.conversations.filter((conversation) => this.#mayClaim(conversation));
    const ready = this.#ready();
    // Any claim under way of the same owner counts against the share of that owner.
    const isFirst = others.every(({ spec }) => spec.owner !== owner);
    if (!isFirst || ready.length <= others.length) return;
    if (admissionCheck.surelyHasRoomFor(owner, others.length))
      throw new Violation(
        'a start claims a ready warm sandbox',
        `${name} of ${owner} is new while ${ready.map(({ metadata }) => metadata.name).join(' ')} are ready`,
      );
  }

  /** Whether the start of a conversation has no sandbox yet, and may claim a warm sandbox. */
  #mayClaim(conversation: Conversation): boolean {
    const { cluster } = this.#options;
    return (
      conversation.spec.sandboxName === undefined &&
      !isStartOver(startStatusOf(conversation)) &&
      !cluster.sandboxes.some((sandbox) => isMadeFor(sandbox, conversation))
    );
  }

  #ready(): readonly Sandbox[] {
    const { cluster, node, scheduler } = this.#options;
    const knownBefore = scheduler.monotonic() - knownMs;
    const known = node.running.filter(
      ({ id }) => (this.#answering.get(id) ?? Infinity) < knownBefore,
    );
    return cluster.warmSandboxes.filter(
      (warmSandbox) =>
        shouldRun(warmSandbox) &&
        known.some(({ sandboxUid }) => sandboxUid === warmSandbox.metadata.uid) &&
        cluster.pools.some(({ metadata }) => metadata.name === warmSandbox.spec.poolName) &&
        !this.#options.isOutdated(warmSandbox),
    );
  }
}
