import { queueMessage } from '../../src/gateway/conversations/message-queue.ts';
import { ProblemError } from '../../src/gateway/errors/problem-error.ts';
import { sleep } from '@conversation-operator/base/clock';
import { ApiError, TransportError } from '@conversation-operator/kube/errors';
import type { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { isStartOver, startStatusOf, type Conversation } from '../../src/resources/conversation.ts';
import { resumeRequestedAnnotation, sandboxes } from '../../src/resources/sandbox.ts';
import { viewOfSandbox } from '../../src/status/sandbox-phase.ts';
import type { Cluster } from './cluster.ts';
import { apiClient } from './api-client.ts';
import { withoutRun } from './agent-process.ts';
import { Machine } from './machine.ts';
import type { Random } from './random.ts';
import type { Scheduler } from './scheduler.ts';
import type { Trace } from './trace.ts';
import type { FaultSchedule } from './fault-schedule.ts';

export interface MessageSenderOptions {
  readonly cluster: Cluster;
  readonly faultSchedule: FaultSchedule;
  readonly scheduler: Scheduler;
  readonly random: Random;
  readonly trace: Trace;
  /** The time in milliseconds at which the last message has been sent. */
  readonly busyMs: number;
}

const namespace = 'default';

/** Users who send messages to running, starting or paused conversations, as `send-message` does. */
export class MessageSender {
  readonly #options: MessageSenderOptions;
  readonly #client: HttpKubeClient;
  readonly #machine: Machine;
  #running = 0;
  #count = 0;

  constructor(options: MessageSenderOptions) {
    const { scheduler, cluster, faultSchedule, trace, random } = options;
    this.#options = options;
    this.#machine = new Machine('messages', scheduler);
    const machine = this.#machine;
    this.#client = apiClient({ machine, cluster, faultSchedule, scheduler, trace, random });
  }

  get done(): boolean {
    return this.#running === 0;
  }

  start(): void {
    for (let writer = this.#options.random.whole(1, 3); writer > 0; writer--) {
      this.#running++;
      void this.#write(this.#options.random.fork(`writer ${writer}`)).then(() => {
        this.#running--;
      });
    }
  }

  async #write(random: Random): Promise<void> {
    const { busyMs, scheduler, cluster } = this.#options;
    while (scheduler.monotonic() < busyMs) {
      await sleep(this.#machine.clock, random.between(200, busyMs / 3));
      const conversation = random.pick(cluster.conversations);
      if (conversation === undefined) continue;
      for (let burst = random.chance(0.3) ? random.whole(2, 4) : 1; burst > 0; burst--)
        await this.send(conversation);
    }
  }

  async send(conversation: Conversation): Promise<void> {
    const number = this.#count++;
    try {
      if (startStatusOf(conversation) === 'ERROR') return;
      const name = conversation.status?.sandboxName;
      const sandbox =
        name === undefined ? undefined : await this.#client.get(sandboxes, namespace, name);
      const { phase } = viewOfSandbox(sandbox);
      if (phase === 'ERROR' || (phase === 'MISSING' && isStartOver(startStatusOf(conversation))))
        return;
      if (phase === 'PAUSED' && name !== undefined) await this.#resume(name);
      const run = this.#options.random.chance(0.9);
      const text = `message ${number}${run ? '' : withoutRun}`;
      await queueMessage(this.#client, conversation, text, {
        role: 'user',
        content: [{ type: 'text', text }],
        run,
      });
    } catch (error) {
      // The user sees an error: the message may not have been sent.
      if (
        !(error instanceof ApiError) &&
        !(error instanceof TransportError) &&
        !(error instanceof ProblemError)
      )
        throw error;
    }
  }

  async #resume(name: string): Promise<void> {
    const annotations = {
      [resumeRequestedAnnotation]: new Date(this.#machine.clock.now()).toISOString(),
    };
    await this.#client.mergePatch(sandboxes, namespace, name, {
      metadata: { annotations },
      spec: { replicas: 1 },
    });
  }
}
