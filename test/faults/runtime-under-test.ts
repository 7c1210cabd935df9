import { setTimeout as wait } from 'node:timers/promises';
import { Controller } from '@conversation-operator/kube/controller';
import type { KubeClient } from '@conversation-operator/kube/client';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { Reflector } from '@conversation-operator/kube/reflector';
import { Transport } from '@conversation-operator/kube/transport';
import { silentLogger } from '@conversation-operator/base/logger';
import { configMaps } from '@conversation-operator/kube/core';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import { sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import type { Rng } from './rng.ts';
import { fastClock } from './fast-clock.ts';
import { Witness } from './witness.ts';
import { colorLabel } from './writers.ts';

/** A back-off of 30 s takes 75 ms, and the watchdog's patience of 400 s is a second. */
const speed = 400;
export const silenceMs = 1000;
/** Real time. Slow answers take less, so a call that is late has a chance. */
const callDeadlineMs = 1000;
const workers = 4;

interface Watched<T extends KubeObject> {
  readonly name: string;
  readonly resource: ResourceDefinition<T>;
  readonly labelSelector?: string;
  readonly reflector: Reflector<T>;
  readonly witness: Witness<T>;
}

export interface RuntimeOptions {
  /** URL of the proxy. */
  readonly url: string;
  readonly namespace: string;
  readonly rng: Rng;
}

/**
 * The parts of a process of the product: a transport, reflectors, and a controller that writes back
 * what it has seen.
 */
export class RuntimeUnderTest {
  readonly #options: RuntimeOptions;
  readonly #transport: Transport;
  readonly #controller: Controller;
  readonly #client: KubeClient;
  readonly #inHand = new Set<string>();
  readonly #sandboxes: Watched<Sandbox>;
  readonly watched: readonly Watched<KubeObject>[];
  readonly violations: string[] = [];
  reconciles = 0;

  constructor(options: RuntimeOptions) {
    const { url, namespace, rng } = options;
    this.#options = options;
    const common = { clock: fastClock(speed), random: rng.random, logger: silentLogger };
    this.#transport = new Transport({
      connection: { server: url },
      ...common,
      deadlineMs: callDeadlineMs * speed,
    });
    const client = (this.#client = new HttpKubeClient({ transport: this.#transport }));
    const watch = <T extends KubeObject>(
      name: string,
      resource: ResourceDefinition<T>,
      labelSelector?: string,
    ): Watched<T> => {
      const selection = labelSelector === undefined ? {} : { labelSelector };
      const reflector = new Reflector({
        client,
        resource,
        namespace,
        ...selection,
        silenceMs: silenceMs * speed,
        ...common,
      });
      const witness = new Witness<T>({ mayReturn: labelSelector !== undefined });
      reflector.addHandler(witness);
      return { name, resource, ...selection, reflector, witness };
    };
    this.#sandboxes = watch('sandboxes', sandboxes);
    // Reading never minds that a kind is known more exactly than as an object.
    this.watched = [
      this.#sandboxes as unknown as Watched<KubeObject>,
      watch('config maps', configMaps),
      watch('red config maps', configMaps, `${colorLabel}=red`),
    ];
    this.#controller = new Controller({
      name: 'faults',
      workers,
      ...common,
      reconcile: async (request) => {
        const key = `${request.namespace}/${request.name}`;
        if (this.#inHand.has(key)) this.violations.push(`${key} was reconciled twice at once`);
        this.#inHand.add(key);
        try {
          await wait(rng.between(0, 3));
          await this.#reconcile(request);
        } finally {
          this.#inHand.delete(key);
        }
        return undefined;
      },
    });
    const enqueue = ({ metadata: { name } }: KubeObject): void =>
      this.#controller.enqueue({ namespace, name });
    this.#sandboxes.reflector.addHandler({ added: enqueue, updated: enqueue, deleted: enqueue });
  }

  /** Connections that it may have: of calls, and one for each watch. */
  get maxConnections(): number {
    return 16 + this.watched.length;
  }

  async start(): Promise<void> {
    for (const { reflector } of this.watched) reflector.start();
    await Promise.all(this.watched.map(({ reflector }) => reflector.synced()));
    this.#controller.start();
  }

  async stop(): Promise<void> {
    await this.#controller.stop(0);
    await Promise.all(this.watched.map(({ reflector }) => reflector.stop()));
    await this.#transport.close();
  }

  /** More reads at once than there are connections. Whether they succeed does not matter. */
  async burst(count: number): Promise<void> {
    const { namespace } = this.#options;
    await Promise.allSettled(
      Array.from({ length: count }, (_, index) =>
        this.#client.get(sandboxes, namespace, `object-${index}`),
      ),
    );
  }

  async #reconcile({
    namespace,
    name,
  }: {
    readonly namespace: string;
    readonly name: string;
  }): Promise<void> {
    this.reconciles++;
    const sandbox = this.#sandboxes.reflector.store.get(namespace, name);
    if (sandbox === undefined || sandbox.status?.observedGeneration === sandbox.metadata.generation)
      return;
    await this.#client.updateStatus(sandboxes, {
      ...sandbox,
      status: { observedGeneration: sandbox.metadata.generation },
    });
  }
}
