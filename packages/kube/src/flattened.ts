/**
 * The elements of one batch after the other. Within a batch nothing is waited for: an async generator would take several turns
 * of the microtask queue for each element. For one reader, who awaits each result before asking for the next, as `for await`
 * does.
 */
export class Flattened<T> implements AsyncIterableIterator<T, undefined> {
  readonly #batches: AsyncGenerator<Iterable<T>, void, undefined>;
  #batch: Iterator<T> | undefined;

  constructor(batches: AsyncGenerator<Iterable<T>, void, undefined>) {
    this.#batches = batches;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<T, undefined>> {
    try {
      const result = this.#batch?.next();
      if (result !== undefined && result.done !== true) return Promise.resolve(result);
    } catch (error) {
      return this.#fail(error);
    }
    return this.#nextBatch();
  }

  /** Ends the batches too. */
  async return(): Promise<IteratorResult<T, undefined>> {
    this.#batch = undefined;
    await this.#batches.return();
    return { done: true, value: undefined };
  }

  async #nextBatch(): Promise<IteratorResult<T, undefined>> {
    const batch = await this.#batches.next();
    if (batch.done === true) {
      this.#batch = undefined;
      return { done: true, value: undefined };
    }
    this.#batch = batch.value[Symbol.iterator]();
    return this.next();
  }

  async #fail(error: unknown): Promise<never> {
    await this.return();
    throw error;
  }
}
