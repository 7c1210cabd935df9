import { AsyncLocalStorage } from 'node:async_hooks';

/** Whose request the present code works on, wherever it waits in between. */
export class CurrentOwner {
  readonly #storage = new AsyncLocalStorage<string>();

  run<T>(owner: string, work: () => T): T {
    return this.#storage.run(owner, work);
  }

  /** Undefined outside of requests of owners. */
  get name(): string | undefined {
    return this.#storage.getStore();
  }
}
