import { CapExceeded } from '../../src/quota/caps.ts';
import { findCondition } from '../../src/resources/conditions.ts';
import { conversationQuotas } from '../../src/resources/conversation-quota.ts';
import {
  conversations as conversationKind,
  isStartOver,
  startStatusOf,
  type Conversation,
} from '../../src/resources/conversation.ts';
import { SandboxCondition, sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import type { Change, Cluster } from './cluster.ts';
import { isMadeFor } from './made-for.ts';
import { Violation } from './safety.ts';
import type { Scheduler } from './scheduler.ts';

export interface CapsCheckOptions {
  readonly cluster: Cluster;
  readonly scheduler: Scheduler;
  /** Maximum time for which an operator may not know of a change. */
  readonly unknownMs: () => number;
}

/** Whether each `maxSandboxes` had room for one more start of an owner, from `at` on. */
interface Moment {
  readonly at: number;
  readonly hasRoom: (owner: string, uid: string) => boolean;
}

/** Whether a sandbox of an owner counts against `maxSandboxes`. */
const isStored = ({ metadata, status }: Sandbox): boolean =>
  metadata.deletionTimestamp === undefined &&
  findCondition(status?.conditions, SandboxCondition.failed)?.reason !== CapExceeded.maxSandboxes;

/** Number of sandboxes that the namespace leaves pools to store; Infinity: no quota limits it. */
export function roomToStore({ quotas, sandboxes: owned, warmSandboxes }: Cluster): number {
  const caps = quotas.flatMap(({ spec }) =>
    spec.scope === 'Namespace' ? (spec.maxSandboxes ?? []) : [],
  );
  return Math.min(Infinity, ...caps) - owned.filter(isStored).length - warmSandboxes.length;
}

/**
 * No start fails for `maxSandboxes` while fewer sandboxes of owners are stored, or about to be
 * created for other starts. Warm sandboxes do not count, and a claim moves a warm sandbox to its
 * owner.
 */
export class CapsCheck {
  readonly #options: CapsCheckOptions;
  #moments: readonly Moment[] = [];

  constructor(options: CapsCheckOptions) {
    this.#options = options;
    options.cluster.onChange((change) => this.#observe(change));
  }

  #observe({ plural, object, before }: Change): void {
    const isCounted =
      plural === conversationKind.plural ||
      plural === sandboxes.plural ||
      plural === conversationQuotas.plural;
    if (!isCounted) return;
    this.#remember();
    if (plural !== conversationKind.plural) return;
    const { metadata, spec, status } = object as Conversation;
    const isNew = (before as Conversation | undefined)?.status?.start?.errorCode === undefined;
    if (!isNew || status?.start?.errorCode !== CapExceeded.maxSandboxes) return;
    if (this.#moments.every(({ hasRoom }) => hasRoom(spec.owner, metadata.uid)))
      throw new Violation(
        'no start fails while fewer sandboxes than maxSandboxes are stored',
        `${metadata.name} of ${spec.owner}`,
      );
  }

  /** Keeps every moment of which an operator may think that it is true. */
  #remember(): void {
    const { scheduler, unknownMs } = this.#options;
    const now = scheduler.monotonic();
    const oldest = now - unknownMs();
    const kept = this.#moments.filter(
      (_, index) => (this.#moments[index + 1]?.at ?? now) >= oldest,
    );
    this.#moments = [...kept, { at: now, hasRoom: this.#roomNow() }];
  }

  #roomNow(): Moment['hasRoom'] {
    const { quotas, sandboxes: owned, conversations } = this.#options.cluster;
    const caps = quotas.filter(({ spec }) => spec.maxSandboxes !== undefined);
    const stored = owned.filter(isStored).map(({ spec }) => spec.owner);
    const toCome = conversations.filter(
      (conversation) =>
        conversation.spec.sandboxName === undefined &&
        !isStartOver(startStatusOf(conversation)) &&
        !owned.some((sandbox) => isMadeFor(sandbox, conversation)),
    );
    return (owner, uid) => {
      const others = toCome.filter(({ metadata }) => metadata.uid !== uid);
      const counted = [...stored, ...others.map(({ spec }) => spec.owner)];
      return caps.every(({ spec: { scope, owner: whose = owner, maxSandboxes = Infinity } }) => {
        const own = counted.filter((name) => scope === 'Namespace' || name === owner);
        return whose !== owner || own.length < maxSandboxes;
      });
    };
  }
}
