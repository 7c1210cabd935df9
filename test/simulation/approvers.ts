import { sleep } from '@conversation-operator/base/clock';
import { ApiError, TransportError, isConflict } from '@conversation-operator/kube/errors';
import type { HttpKubeClient } from '@conversation-operator/kube/http-client';
import type { ApprovalAnswer } from '../../src/resources/approval.ts';
import { conversations } from '../../src/resources/conversation.ts';
import type { Cluster } from './cluster.ts';
import { apiClient } from './api-client.ts';
import { Machine } from './machine.ts';
import type { Random } from './random.ts';
import type { Scheduler } from './scheduler.ts';
import type { Trace } from './trace.ts';
import type { FaultSchedule } from './fault-schedule.ts';

export interface ApproversOptions {
  readonly cluster: Cluster;
  readonly faultSchedule: FaultSchedule;
  readonly scheduler: Scheduler;
  readonly random: Random;
  readonly trace: Trace;
  /** The time in milliseconds at which the last answer has been given. */
  readonly busyMs: number;
  /** Whether people answer nothing before `answerAll`. */
  readonly answersLate: boolean;
}

interface OpenQuestion {
  readonly name: string;
  readonly id: string;
}

const namespace = 'default';

/** Whether people answer its questions by the resource alone, and not at the agent itself. */
export const isAnsweredByResource = (name: string): boolean => /[0-7]$/.test(name);

/** People who answer questions by `spec.approvals`: sometimes twice, late, or with nonsense. */
export class Approvers {
  readonly #options: ApproversOptions;
  readonly #client: HttpKubeClient;
  readonly #machine: Machine;
  #running = 0;

  constructor(options: ApproversOptions) {
    const { scheduler, cluster, faultSchedule, trace, random } = options;
    this.#options = options;
    this.#machine = new Machine('approvers', scheduler);
    const machine = this.#machine;
    this.#client = apiClient({ machine, cluster, faultSchedule, scheduler, trace, random });
  }

  get done(): boolean {
    return this.#running === 0;
  }

  get answersLate(): boolean {
    return this.#options.answersLate;
  }

  start(): void {
    if (this.answersLate) return;
    this.#running++;
    void this.#work(this.#options.random.fork('answers')).then(() => {
      this.#running--;
    });
  }

  async #work(random: Random): Promise<void> {
    const { busyMs, scheduler } = this.#options;
    while (scheduler.monotonic() < busyMs) {
      await sleep(this.#machine.clock, random.between(200, 3_000));
      await this.answerOne(random);
    }
  }

  /** Answers a question; undefined where no agent asks. */
  answerOne(random: Random): Promise<void> | undefined {
    const question = random.pick(this.#questions);
    return question && this.#answerTwice(question, random);
  }

  answerAll(): void {
    const questions = this.#questions;
    const random = this.#options.random.fork('late answers');
    this.#running++;
    void Promise.all(questions.map((question) => this.#answerTwice(question, random))).then(() => {
      this.#running--;
    });
  }

  get #questions(): readonly OpenQuestion[] {
    return this.#options.cluster.conversations.flatMap(({ metadata: { name }, status }) =>
      status?.approval !== undefined && isAnsweredByResource(name)
        ? [{ name, id: status.approval.id }]
        : [],
    );
  }

  /** The same person may answer once more, or another one who has another opinion. */
  async #answerTwice({ name, id }: OpenQuestion, random: Random): Promise<void> {
    await this.#answer(name, answerOf(id, random));
    if (random.chance(0.3)) await this.#answer(name, answerOf(id, random));
  }

  async #answer(name: string, answer: ApprovalAnswer): Promise<void> {
    for (let attempt = 0; attempt < 5; attempt++) {
      try {
        const stored = await this.#client.get(conversations, namespace, name);
        const { approvals = [] } = stored.spec;
        if (stored.status?.approval?.id !== answer.id) return;
        if (approvals.some(({ id }) => id === answer.id)) return;
        await this.#client.mergePatch(conversations, namespace, name, {
          metadata: { resourceVersion: stored.metadata.resourceVersion },
          spec: { approvals: [...approvals.slice(-3), answer] },
        });
        return;
      } catch (error) {
        // A person who has had no answer tries again, and finds what was stored.
        if (error instanceof TransportError || isConflict(error)) continue;
        if (error instanceof ApiError) return;
        throw error;
      }
    }
  }
}

/** Mostly a yes; some answers name no option of the question. */
function answerOf(id: string, random: Random): ApprovalAnswer {
  const choice = random.next();
  if (choice < 0.35) return { id, decision: 'approve' };
  if (choice < 0.6) return { id, option: 'yes' };
  if (choice < 0.75) return { id, decision: 'reject', reason: 'Not this one.' };
  if (choice < 0.9) return { id, option: 'no' };
  return { id, option: 'certainly' };
}
