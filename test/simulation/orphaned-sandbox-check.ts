import { conversations } from '../../src/resources/conversation.ts';
import { sandboxes } from '../../src/resources/sandbox.ts';
import type { Change, Cluster } from './cluster.ts';
import { Violation } from './safety.ts';
import type { Scheduler } from './scheduler.ts';

export interface OrphanedSandboxCheckOptions {
  readonly cluster: Cluster;
  readonly scheduler: Scheduler;
  readonly isOperator: (actor: string) => boolean;
  /** Maximum time from an operator's last read of the conversation to the creation that follows. */
  readonly unknownMs: () => number;
}

/** No sandbox is made for a conversation that is gone, however far a cache is behind. */
export class OrphanedSandboxCheck {
  readonly #options: OrphanedSandboxCheckOptions;
  /** By the uid of the conversation. */
  readonly #deletedAt = new Map<string, number>();

  constructor(options: OrphanedSandboxCheckOptions) {
    this.#options = options;
    options.cluster.onChange((change) => this.#observe(change));
  }

  #observe({ plural, type, object, actor }: Change): void {
    const { scheduler, isOperator, unknownMs } = this.#options;
    const now = scheduler.monotonic();
    if (plural === conversations.plural && type === 'DELETED')
      this.#deletedAt.set(object.metadata.uid, now);
    if (plural !== sandboxes.plural || type !== 'ADDED' || !isOperator(actor)) return;
    for (const { uid, name } of object.metadata.ownerReferences ?? []) {
      const agoMs = now - (this.#deletedAt.get(uid) ?? Infinity);
      if (agoMs > unknownMs())
        throw new Violation(
          'no sandbox is created for a deleted conversation',
          `${object.metadata.name} for ${name}, gone ${agoMs} ms ago`,
        );
    }
  }
}
