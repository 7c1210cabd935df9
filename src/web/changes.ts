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
      yield store.putConversation(change.data);
      return;
    case 'start_task':
      yield store.putTask(change.data);
      return;
    case 'sandbox':
      yield store.putSandbox(change.data);
      return;
    case 'quota':
      store.quota.value = change.data;
      return;
    case 'removed':
      yield store.remove(change.data);
      return;
  }
}

function* stepsOfSnapshot(store: Store, snapshot: Snapshot): Generator<void> {
  store.beginSnapshot();
  store.quota.value = snapshot.quota;
  // Sandboxes first: each conversation then finds its own, and changes once.
  for (const sandbox of snapshot.sandboxes) yield store.putSandbox(sandbox);
  for (const task of snapshot.start_tasks) yield store.putTask(task);
  for (const conversation of snapshot.conversations) yield store.putConversation(conversation);
  if (snapshot.last) yield store.endSnapshot();
}

/** Applies changes in their order, a large number of them in slices. */
export class ChangeQueue {
  readonly #store: Store;
  readonly #waiting: Change[] = [];
  #steps: Generator<void> | undefined;
  #isScheduled = false;

  constructor(store: Store) {
    this.#store = store;
  }

  push(change: Change): void {
    this.#waiting.push(change);
    if (!this.#isScheduled) this.#run();
  }

  #run = (): void => {
    const deadline = performance.now() + sliceMs;
    this.#isScheduled = false;
    batch(() => {
      while (this.#step())
        if (performance.now() > deadline) {
          this.#isScheduled = true;
          setTimeout(this.#run);
          break;
        }
      this.#store.settle();
    });
  };

  /** Whether there may be more. */
  #step(): boolean {
    if (this.#steps === undefined) {
      const change = this.#waiting.shift();
      if (change === undefined) return false;
      this.#steps = stepsOf(this.#store, change);
    }
    if (this.#steps.next().done === true) this.#steps = undefined;
    return true;
  }
}
