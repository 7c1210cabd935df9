import type { ApiObject } from '../api/api-object.ts';

/** One version of an object, serialized once for the disk, responses and watchers. */
export interface Stored {
  readonly object: ApiObject;
  readonly json: string;
  readonly version: number;
}

export interface Change {
  /** Storage key of the kind, `group/plural`. */
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
  readonly version: number;
  readonly before: Stored | undefined;
  /** New state, or the last state of a deleted object. */
  readonly after: Stored;
  readonly deleted: boolean;
}

/** Recent changes, for watches and continued lists that start from an older version. */
export class EventLog {
  readonly #capacity: number;
  #changes: Change[] = [];
  #first = 0;
  #compacted: number;

  /** Changes up to the version `compacted` are unknown. */
  constructor(capacity: number, compacted: number) {
    this.#capacity = capacity;
    this.#compacted = compacted;
  }

  /** Oldest version after which all changes are known, so that a watch can start from it. */
  get compacted(): number {
    return this.#compacted;
  }

  append(change: Change): void {
    this.#changes.push(change);
    if (this.#changes.length - this.#first > this.#capacity) this.#dropOldest();
  }

  #dropOldest(): void {
    const oldest = this.#changes[this.#first];
    if (oldest !== undefined) this.#compacted = oldest.version;
    this.#first += 1;
    // The array is shortened when half of it is unused, because moving all elements is expensive.
    if (this.#first < this.#capacity) return;
    this.#changes = this.#changes.slice(this.#first);
    this.#first = 0;
  }

  compactTo(version: number): void {
    while (
      this.#first < this.#changes.length &&
      (this.#changes[this.#first]?.version ?? Infinity) <= version
    )
      this.#dropOldest();
    this.#compacted = Math.max(this.#compacted, version);
  }

  /** Returns a resource's changes after a version, oldest first; undefined when compacted. */
  since(resource: string, version: number): readonly Change[] | undefined {
    if (version < this.#compacted) return undefined;
    return this.#changes
      .slice(this.#first)
      .filter((change) => change.version > version && change.resource === resource);
  }
}

/** Lines for one watcher, in order. The stream ends when more than `maxLines` lines are unread. */
export class WatchStream implements AsyncIterable<string> {
  readonly #maxLines: number;
  readonly #onClose: () => void;
  #lines: string[] = [];
  #waiting: ((result: IteratorResult<string>) => void) | undefined;
  #ended = false;

  constructor(options: { readonly maxLines: number; readonly onClose: () => void }) {
    this.#maxLines = options.maxLines;
    this.#onClose = options.onClose;
  }

  get ended(): boolean {
    return this.#ended;
  }

  push(line: string): void {
    if (this.#ended) return;
    const waiting = this.#waiting;
    if (waiting !== undefined) {
      this.#waiting = undefined;
      waiting({ done: false, value: line });
      return;
    }
    if (this.#lines.length >= this.#maxLines) {
      this.#lines = [];
      this.end();
      return;
    }
    this.#lines.push(line);
  }

  /** Ends the stream after the lines that are already queued. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#onClose();
    this.#waiting?.({ done: true, value: undefined });
    this.#waiting = undefined;
  }

  [Symbol.asyncIterator](): AsyncIterator<string> {
    return {
      next: () => this.#next(),
      return: () => {
        this.#lines = [];
        this.end();
        return Promise.resolve({ done: true, value: undefined });
      },
    };
  }

  #next(): Promise<IteratorResult<string>> {
    if (this.#lines.length > 0) {
      const value = this.#lines.length === 1 ? (this.#lines[0] ?? '') : this.#lines.join('');
      this.#lines = [];
      return Promise.resolve({ done: false, value });
    }
    if (this.#ended) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }
}
