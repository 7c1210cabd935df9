import { batch } from '@preact/signals';
import type { Store } from './store.ts';
import type { Change, Snapshot } from './wire.ts';

/** Maximum time that changes take in one go, so that the page answers a person in between. */
const sliceMs = 8;

function* stepsOf(store: Store, change: Change): Generator<void> {
  switch (change.kind) {
    case 'snapshot':
      yield* stepsOfSnapshot(store, change.data);
      return;
    case 'conversation':
      store.putConversation(change.data);
      return;
    case 'start_task':
      store.putTask(change.data);
      return;
    case 'sandbox':
      store.putSandbox(change.data);
      return;
    case 'quota':
      store.quota.value = change.data;
      return;
    case 'removed':
      store.remove(change.data);
      return;
  }
}

function* stepsOfSnapshot(store: Store, snapshot: Snapshot): Generator<void> {
  store.beginSnapshot();
  // Sandboxes first: each conversation then finds its own, and changes once.
  for (const sandbox of snapshot.sandboxes) {
    store.putSandbox(sandbox);
    yield;
  }
  for (const task of snapshot.start_tasks) {
    store.putTask(task);
    yield;
  }
  for (const conversation of snapshot.conversations) {
    store.putConversation(conversation);
    yield;
  }
  // The quota names conversations by their titles, so it comes after them.
  store.quota.value = snapshot.quota;
  if (snapshot.last) store.endSnapshot();
}

/**
 * Applies changes in their order. Changes that arrive together are one change of the list, and a
 * large number of them takes slices, the parsing of each included.
 */
export class ChangeQueue {
  readonly #store: Store;
  readonly #waiting: (() => Change)[] = [];
  #steps: Generator<void> | undefined;
  #isScheduled = false;

  constructor(store: Store) {
    this.#store = store;
  }

  push(parse: () => Change): void {
    this.#waiting.push(parse);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setTimeout(this.#run);
  }

  #run = (): void => {
    const deadline = performance.now() + sliceMs;
    this.#isScheduled = false;
    batch(() => {
      while (this.#step())
        if (performance.now() > deadline) {
          this.#schedule();
          break;
        }
      this.#store.settle();
    });
  };

  /** Whether there may be more. */
  #step(): boolean {
    if (this.#steps === undefined) {
      const parse = this.#waiting.shift();
      if (parse === undefined) return false;
      this.#steps = stepsOf(this.#store, parse());
    }
    if (this.#steps.next().done === true) this.#steps = undefined;
    return true;
  }
}
