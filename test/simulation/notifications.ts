import type { AgentNotification } from '../../src/agent/notifications.ts';
import { conversationIdOf } from '../../src/resources/ids.ts';
import type { AgentProcess, StoredConversation } from './agent-process.ts';
import type { Cluster } from './cluster.ts';
import type { SimulatedNode } from './node.ts';
import type { OperatorProcess } from './operator-process.ts';
import type { Random } from './random.ts';
import type { Scheduler } from './scheduler.ts';
import type { Trace } from './trace.ts';

export interface NotificationsOptions {
  readonly cluster: Cluster;
  readonly node: SimulatedNode;
  readonly operators: readonly Pick<OperatorProcess, 'notify'>[];
  readonly scheduler: Scheduler;
  readonly random: Random;
  readonly trace: Trace;
  /** A true notification has come to every process, for the first time. */
  readonly onDelivered: (process: AgentProcess, conversation: StoredConversation) => void;
  /** A notification without a sender has arrived. */
  readonly onForged: (notification: AgentNotification) => void;
}

const namespace = 'default';

/**
 * Notifications of agents through the gateway, to each process that listens: one that leads, one
 * that no longer leads, one that is frozen. Some are lost, all of them while no gateway runs; some
 * arrive late, or twice; and some have no sender.
 */
export class Notifications {
  readonly #options: NotificationsOptions;
  readonly #lost: number;
  readonly #late: number;
  readonly #repeated: number;
  #gateway = true;

  constructor(options: NotificationsOptions) {
    this.#options = options;
    const { random } = options;
    this.#lost = random.chance(0.5) ? 0 : random.between(0, 0.6);
    this.#late = random.chance(0.5) ? 0 : random.between(0, 0.4);
    this.#repeated = random.between(0, 0.4);
  }

  start(): void {
    const { node, random, scheduler } = this.#options;
    node.onStatus = (process, conversation) => this.#notify(process, conversation);
    if (random.chance(0.6)) this.#forge();
    if (!random.chance(0.4)) return;
    const toggle = () => {
      this.#gateway = !this.#gateway;
      scheduler.after(random.between(5_000, 60_000), toggle);
    };
    toggle();
  }

  #notify(process: AgentProcess, conversation: StoredConversation): void {
    const { cluster, scheduler, onDelivered } = this.#options;
    const random = this.#options.random.nextOf(conversation.id);
    const sandbox = cluster.sandboxOf(process.sandboxUid)?.metadata.name;
    if (
      sandbox === undefined ||
      process.silentSince !== undefined ||
      !this.#gateway ||
      random.chance(this.#lost)
    )
      return;
    const notification = { namespace, sandbox, conversationId: conversation.id };
    const late = random.chance(this.#late);
    scheduler.after(late ? random.between(1_000, 40_000) : random.between(1, 30), () => {
      this.#deliver(notification);
      if (!late) onDelivered(process, conversation);
    });
    if (random.chance(this.#repeated))
      scheduler.after(random.between(0, 10_000), () => this.#deliver(notification));
  }

  /** Notifications by a key holder or a confused gateway: about wrong sandboxes, and many. */
  #forge(): void {
    const { cluster, random, scheduler, onForged } = this.#options;
    scheduler.after(random.between(200, 15_000), () => {
      const sandbox = random.pick(cluster.sandboxes)?.metadata.name ?? 'missing';
      const conversation = random.pick(cluster.conversations);
      const conversationId =
        conversation === undefined || random.chance(0.3)
          ? undefined
          : conversationIdOf(conversation);
      const notification = {
        namespace: random.chance(0.1) ? 'elsewhere' : namespace,
        sandbox,
        conversationId,
      };
      for (let count = random.chance(0.2) ? random.whole(5, 40) : 1; count > 0; count--)
        scheduler.after(random.between(0, 2_000), () => {
          onForged(notification);
          this.#deliver(notification);
        });
      this.#forge();
    });
  }

  #deliver(notification: AgentNotification): void {
    this.#options.trace.note(
      `notification: ${notification.namespace}/${notification.sandbox} ${notification.conversationId ?? 'any'}`,
    );
    for (const operator of this.#options.operators) operator.notify(notification);
  }
}
