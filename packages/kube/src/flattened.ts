/**
 * Iterates over the elements of batches in order. Within a batch, `next` returns a resolved
 * promise, whereas an async generator would take several turns of the microtask queue for each
 * element. The iterator supports one reader that awaits each result before the next call, as `for
 * await` does.
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

  /** Ends the iteration over the batches too. */
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
