import type { Violation } from './safety.ts';

/** Violations seen within the product's calls, which would catch an error; thrown after a step. */
export class Findings {
  #first: Violation | undefined;

  report(violation: Violation): void {
    this.#first ??= violation;
  }

  check(): void {
    if (this.#first !== undefined) throw this.#first;
  }
}
