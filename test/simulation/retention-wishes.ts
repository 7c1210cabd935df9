import { apiVersion } from '../../src/resources/group.ts';
import { sleep } from '@conversation-operator/base/clock';
import { resumeRequestedAnnotation } from '../../src/resources/sandbox.ts';
import type { Cluster } from './cluster.ts';
import type { Random } from './random.ts';
import type { RetentionSettings } from './retention-history.ts';
import type { Scheduler } from './scheduler.ts';

export interface RetentionWishesOptions {
  readonly cluster: Cluster;
  readonly scheduler: Scheduler;
  readonly random: Random;
  /** Time after which no setting changes. */
  readonly untilMs: number;
}

const group = `/apis/${apiVersion}/namespaces/default`;
const rules = ['finished', 'failed', 'paused', 'records'] as const;

/** A person who sets how long objects are kept, in the template and for single conversations. */
export class RetentionWishes {
  readonly #options: RetentionWishesOptions;
  /** The settings of the template at the beginning. */
  readonly settings: RetentionSettings;
  /** Whether the exercise has begun and is not over. */
  busy = false;

  constructor(options: RetentionWishesOptions) {
    this.#options = options;
    this.settings = this.#wish(options.random);
  }

  start(): void {
    const { random, scheduler, untilMs } = this.#options;
    const own = random.fork('own');
    for (let count = own.chance(0.6) ? own.whole(2, 10) : 0; count > 0; count--)
      scheduler.after(own.between(0, untilMs), () => this.#setOwn(own));
    const template = random.fork('template');
    for (let count = template.chance(0.3) ? template.whole(1, 3) : 0; count > 0; count--)
      scheduler.after(template.between(0, untilMs), () => this.#setTemplate(template));
  }

  startExercise(): void {
    this.busy = true;
    void this.#exercise(this.#options.random.fork('exercise')).then(() => {
      this.busy = false;
    });
  }

  /** Objects kept for ever get a limit later; before, their sandbox is resumed or paused. */
  async #exercise(random: Random): Promise<void> {
    const { cluster, scheduler } = this.#options;
    for (let left = random.whole(1, 4); left > 0; left--) {
      await sleep(scheduler, random.between(500, 10_000));
      if (random.chance(0.3)) this.#setTemplate(random);
      const conversation = random.pick(cluster.conversations);
      if (conversation === undefined) continue;
      await this.#keepFor(conversation.metadata.name, random.whole(5, 40));
      await sleep(scheduler, random.between(500, 20_000));
      const name = random.chance(0.8) ? conversation.status?.sandboxName : undefined;
      if (name === undefined || cluster.sandboxes.every(({ metadata }) => metadata.name !== name))
        continue;
      const replicas = random.chance(0.7) ? 1 : 0;
      const annotations =
        replicas === 0
          ? {}
          : { [resumeRequestedAnnotation]: new Date(scheduler.now()).toISOString() };
      await cluster.call('kubectl', 'PATCH', `${group}/sandboxes/${name}`, {
        metadata: { annotations },
        spec: { replicas },
      });
    }
  }

  #wish(random: Random): RetentionSettings {
    const settings: Partial<Record<(typeof rules)[number], string>> = {};
    for (const rule of rules) if (random.chance(0.6)) settings[rule] = `${random.whole(0, 20)}s`;
    return settings;
  }

  #setOwn(random: Random): void {
    const conversation = random.pick(this.#options.cluster.conversations);
    const ttlSecondsAfterFinished = random.chance(0.8) ? random.whole(0, 40) : null;
    if (conversation !== undefined)
      void this.#keepFor(conversation.metadata.name, ttlSecondsAfterFinished);
  }

  async #keepFor(name: string, ttlSecondsAfterFinished: number | null): Promise<void> {
    await this.#options.cluster.call('kubectl', 'PATCH', `${group}/conversations/${name}`, {
      spec: { ttlSecondsAfterFinished },
    });
  }

  #setTemplate(random: Random): void {
    const off = { finished: null, failed: null, paused: null, records: null };
    const retention = random.chance(0.2) ? null : { ...off, ...this.#wish(random) };
    void this.#options.cluster.call('kubectl', 'PATCH', `${group}/sandboxtemplates/default`, {
      spec: { retention },
    });
  }
}
