import { sleep } from '@conversation-operator/base/clock';
import { Controller } from '@conversation-operator/kube/controller';
import type { AgentNotification } from '../agent/notifications.ts';
import { AgentNotifications } from './conversation/polling/agent-notifications.ts';
import type { ControllerSpec } from './controller-spec.ts';
import { wireOperator, type OperatorOptions, type OperatorWiring } from './operator-wiring.ts';
import type { Reflector } from '@conversation-operator/kube/reflector';
import type { Metrics } from '../observability/metrics.ts';
import { sandboxStatuses } from '../resources/conversation-status.ts';
import type { Sandbox } from '../resources/sandbox.ts';
import { viewOfSandbox } from '../status/sandbox-phase.ts';

/** Counts sandboxes by phase in the gauge `sandboxes`. Returns a function that stops counting. */
function countPhases(
  reflector: Pick<Reflector<Sandbox>, 'addHandler'>,
  { sandboxes }: Pick<Metrics, 'sandboxes'>,
): () => void {
  for (const phase of sandboxStatuses) sandboxes.set({ phase }, 0);
  const move = (old: Sandbox | undefined, current: Sandbox | undefined) => {
    if (old !== undefined) sandboxes.dec({ phase: viewOfSandbox(old).phase });
    if (current !== undefined) sandboxes.inc({ phase: viewOfSandbox(current).phase });
  };
  return reflector.addHandler({
    added: (sandbox) => move(undefined, sandbox),
    updated: (sandbox, old) => move(old, sandbox),
    deleted: (sandbox) => move(sandbox, undefined),
  });
}

export class Operator {
  readonly #options: OperatorOptions;
  readonly #wiring: OperatorWiring;
  readonly #controllers: Controller[] = [];
  readonly #disconnects: (() => void)[] = [];
  readonly #notifications: AgentNotifications;

  constructor(options: OperatorOptions) {
    const wiring = wireOperator(options);
    const { caches, clock } = options;
    this.#options = options;
    this.#wiring = wiring;
    this.#notifications = new AgentNotifications({
      stores: { sandboxes: caches.sandboxes.store, conversations: caches.conversations.store },
      clock,
      onNotification: wiring.notify,
    });
  }

  /**
   * Starts the controllers once every cache is synced: a controller that sees only a part of the
   * objects would create objects that already exist.
   */
  async start(signal?: AbortSignal): Promise<void> {
    const { caches, clock, metrics } = this.#options;
    const { reads, admissionControllers, otherControllers } = this.#wiring;
    await Promise.all(Object.values(caches).map((cache) => cache.synced(signal)));
    const fillAdmission = await reads.seed(signal);
    const startAdmission = this.#connect(admissionControllers);
    fillAdmission();
    startAdmission();
    try {
      // Admission sends its first writes before the other controllers process every object.
      await sleep(clock, 0, signal);
    } catch (error) {
      await this.stop();
      throw error;
    }
    const startOthers = this.#connect(otherControllers);
    this.#disconnects.push(countPhases(caches.sandboxes, metrics));
    startOthers();
  }

  /** Connects controllers with their sources. Returns the function that starts the controllers. */
  #connect(specs: readonly ControllerSpec[]): () => void {
    const { clock, random, logger, metrics } = this.#options;
    const controllers = specs.map(({ sources, ...spec }) => {
      const controller = new Controller({
        ...spec,
        clock,
        random,
        metrics,
        logger: logger.child({ controller: spec.name }),
      });
      this.#disconnects.push(...sources.map((connect) => connect(controller)));
      return controller;
    });
    this.#controllers.push(...controllers);
    return () => {
      for (const controller of controllers) controller.start();
    };
  }

  /**
   * Handles a notification of an agent about one or all of its conversations. The only effect is an
   * earlier poll, within a budget, so a notification may be lost, late, repeated or wrong.
   */
  notify(notification: AgentNotification): void {
    this.#notifications.take(notification);
  }

  /** Stops the controllers. Waits at most `graceMs` for running reconciles and starts no others. */
  async stop(graceMs = 5_000): Promise<void> {
    for (const disconnect of this.#disconnects.splice(0)) disconnect();
    await Promise.all(this.#controllers.map((controller) => controller.stop(graceMs)));
    await this.#wiring.events.close();
  }
}
