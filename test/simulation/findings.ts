import type { Violation } from './safety.ts';

/**
 * Violations that a check sees within a call of the product's own, where an error would be taken
 * for the call's. The simulation throws the first of them after the step.
 */
export class Findings {
  #first: Violation | undefined;

  report(violation: Violation): void {
    this.#first ??= violation;
  }

  check(): void {
    if (this.#first !== undefined) throw this.#first;
  }
}
