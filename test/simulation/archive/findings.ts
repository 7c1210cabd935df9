/** A promise of the archive that does not hold. */
export class BrokenPromise extends Error {
  override readonly name = 'BrokenPromise';
  readonly rule: Rule;

  constructor(rule: Rule, detail: string) {
    super(`${rule}: ${detail}`);
    this.rule = rule;
  }
}

export const rules = [
  'a complete seal has everything',
  'archived events stay where they are',
  'the archive has events of the agent, in order and once',
  'the objects of a fresh head exist and are whole',
  'no object of a current head is deleted',
  'paging gives each event once',
  'a crash loses the last seconds alone',
  'a pause without faults is complete',
  'a seal ends in time',
  'nothing of a deleted conversation remains',
  'nothing of an expired archive remains',
  'nothing of another installation is touched',
  'no archive expires before its time',
  'an archive stays within its limit',
  'replaced heads are deleted',
  'no archive contains a secret',
] as const;
export type Rule = (typeof rules)[number];

/** The first broken promise, which a check may find within a call of the product. */
export class Findings {
  #first: Error | undefined;

  report(rule: Rule, detail: string): void {
    this.#first ??= new BrokenPromise(rule, detail);
  }

  /** Records an error of the model itself, or of the product where nothing may fail. */
  fail(error: unknown): void {
    this.#first ??= error instanceof Error ? error : new Error(String(error));
  }

  check(): void {
    if (this.#first !== undefined) throw this.#first;
  }
}
