import { sleep } from '@conversation-operator/base/clock';
import { Controller } from '@conversation-operator/kube/controller';
import type { AgentNotification } from '../agent/notifications.ts';
import { admissionController, lookupController, quotaController } from './admission/controllers.ts';
import { archiveController, archiveSweepController } from './archive/controllers.ts';
import { AgentNotifications } from './conversation/polling/agent-notifications.ts';
import { startController, statusController } from './conversation/controllers.ts';
import { disruptionController } from './disruption/controller.ts';
import type { ControllerSpec } from './event-source.ts';
import { createContext, type OperatorContext, type OperatorOptions } from './operator-context.ts';
import { poolController } from './pool/controller.ts';
import { retentionController } from './retention/controller.ts';
import { sandboxController } from './sandbox/controller.ts';
import { templateController } from './template/controller.ts';
import type { Reflector } from '@conversation-operator/kube/reflector';
import type { Metrics } from '../observability/metrics.ts';
import { sandboxStatuses } from '../resources/conversation-status.ts';
import { viewOfSandbox, type Sandbox } from '../resources/sandbox.ts';

/** Keeps the gauge of sandboxes by phase. Returns the function that ends it. */
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

/**
 * The controllers of admission. They start first: an event has to count in the cache of admission
 * before another controller acts on it, and the first decision waits for no work of the others.
 */
const admissionControllers = [admissionController, lookupController, quotaController];

const otherControllers = [
  sandboxController,
  startController,
  statusController,
  templateController,
  poolController,
  retentionController,
  archiveController,
  archiveSweepController,
  disruptionController,
];

/** Runs every controller of the product. */
export class Operator {
  readonly #context: OperatorContext;
  readonly #controllers: Controller[] = [];
  readonly #disconnects: (() => void)[] = [];
  readonly #notifications: AgentNotifications;

  constructor(options: OperatorOptions) {
    const context = createContext(options);
    const { clock, stores, channels, conversations } = context;
    this.#context = context;
    this.#notifications = new AgentNotifications({
      ...{ stores, clock },
      onNotification: (request) => {
        const delayMs = conversations.notify(request);
        if (delayMs !== undefined) channels.notified.enqueue(request, delayMs);
      },
    });
  }

  /**
   * Starts the controllers once every cache is filled: a decision on a part of the objects would
   * create objects that exist already.
   */
  async start(signal?: AbortSignal): Promise<void> {
    const { caches, reads, clock, metrics } = this.#context;
    await Promise.all(Object.values(caches).map((cache) => cache.synced(signal)));
    const fillAdmission = await reads.seed(signal);
    const startAdmission = this.#connect(admissionControllers);
    fillAdmission();
    startAdmission();
    try {
      // The first decisions are sent before the other controllers read every object.
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
  #connect(
    definitions: readonly ((context: OperatorContext) => ControllerSpec | undefined)[],
  ): () => void {
    const { clock, random, logger, metrics } = this.#context;
    const specs = definitions.flatMap((definition) => definition(this.#context) ?? []);
    const controllers = specs.map(({ sources, ...spec }) => {
      const controller = new Controller({
        ...{ ...spec, clock, random, metrics },
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
   * Takes a notification about one conversation of an agent, or about all. A notification only
   * brings polls forward, within a budget, so it may be lost, late, repeated or wrong.
   */
  notify(notification: AgentNotification): void {
    this.#notifications.take(notification);
  }

  /** Ends running reconciles, after `graceMs` at most, and begins no new ones. */
  async stop(graceMs = 5_000): Promise<void> {
    for (const disconnect of this.#disconnects.splice(0)) disconnect();
    await Promise.all(this.#controllers.map((controller) => controller.stop(graceMs)));
    await this.#context.events.close();
  }
}
