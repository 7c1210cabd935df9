import type { Random } from './random.ts';

/** Faults of the first call that gives the answer of a question to an agent. */
export class AnswerDoubts {
  readonly #random: Random;
  readonly #seen = new Set<string>();

  constructor(random: Random) {
    this.#random = random;
  }

  /** lost: the agent has the answer, and the caller does not learn that. late: it comes later. */
  next(questionId: string): 'lost' | 'late' | undefined {
    if (this.#seen.has(questionId)) return undefined;
    this.#seen.add(questionId);
    const choice = this.#random.next();
    return choice < 0.3 ? 'lost' : choice < 0.6 ? 'late' : undefined;
  }
}
