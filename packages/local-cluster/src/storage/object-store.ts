import { withMeta, type ApiObject } from '../api/api-object.ts';
import { type Change, type Stored, EventLog } from './changes.ts';

/** The storage cannot be opened or written. The message names the file and the problem. */
export class StorageError extends Error {
  override readonly name = 'StorageError';
  readonly code: 'Locked' | 'Corrupt' | 'TooNew' | 'Unusable' | 'WriteFailed' | 'Closed';

  constructor(code: StorageError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export interface Row {
  /** Storage key of the kind, `group/plural`. */
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
  readonly version: number;
  /** Undefined: the object is deleted. */
  readonly json: string | undefined;
}

export interface Journal {
  /** Returns all stored objects and the highest version ever assigned. */
  load(): { readonly rows: readonly Row[]; readonly revision: number };
  /** Returns after all rows have become durable. Throws if no row has become durable. */
  append(rows: readonly Row[], revision: number): void;
  close(): void;
  /** True when `append` waits for the disk, so that the store batches writes. */
  readonly durable: boolean;
}

/** A journal that stores nothing, for tests and simulations. */
export const volatileJournal: Journal = {
  load: () => ({ rows: [], revision: 0 }),
  append: () => undefined,
  close: () => undefined,
  durable: false,
};

/** Returns an object's key, which sorts like etcd's keys: by namespace, then by name. */
export const keyOf = (namespace: string, name: string): string => `${namespace}/${name}`;

/**
 * All objects, in memory and in the journal. Writes take effect at once and in the order of their
 * versions. A caller that has read or written waits for `committed()` before it answers a client,
 * so that a crash cannot undo anything that a client has seen.
 */
export class ObjectStore {
  readonly #journal: Journal;
  readonly #tables = new Map<string, Map<string, Stored>>();
  readonly #listeners: ((change: Change) => void)[] = [];
  readonly #log: EventLog;
  #revision: number;
  #pending: Change[] = [];
  #commit: PromiseWithResolvers<void> | undefined;
  #closed = false;

  constructor(options: { readonly journal: Journal; readonly logCapacity: number }) {
    this.#journal = options.journal;
    const { rows, revision } = options.journal.load();
    this.#revision = Math.max(revision, 1);
    this.#log = new EventLog(options.logCapacity, this.#revision);
    for (const { resource, namespace, name, version, json } of rows) {
      if (json === undefined) continue;
      this.#place(resource, keyOf(namespace, name), {
        object: JSON.parse(json) as ApiObject,
        json,
        version,
      });
    }
  }

  get revision(): number {
    return this.#revision;
  }

  /** Version of the latest durable write. */
  get committedRevision(): number {
    return (this.#pending[0]?.version ?? this.#revision + 1) - 1;
  }

  /** Oldest version after which all changes are known. */
  get compacted(): number {
    return this.#log.compacted;
  }

  get resources(): readonly string[] {
    return [...this.#tables.keys()];
  }

  get(resource: string, namespace: string, name: string): Stored | undefined {
    return this.#tables.get(resource)?.get(keyOf(namespace, name));
  }

  /** Yields objects sorted by key, after the key `after`. Default: objects of all namespaces. */
  *list(resource: string, namespace?: string, after?: string): Generator<Stored> {
    const table = this.#tables.get(resource) ?? new Map<string, Stored>();
    const prefix = namespace === undefined ? '' : `${namespace}/`;
    const keys = [...table.keys()].filter(
      (key) => key.startsWith(prefix) && (after === undefined || key > after),
    );
    for (const key of keys.sort()) {
      const stored = table.get(key);
      if (stored !== undefined) yield stored;
    }
  }

  count(resource: string): number {
    return this.#tables.get(resource)?.size ?? 0;
  }

  /** Returns the objects of a resource at a version; undefined if the version was compacted. */
  listAt(
    resource: string,
    version: number,
    namespace?: string,
    after?: string,
  ): Iterable<Stored> | undefined {
    const changes = this.#log.since(resource, version);
    if (changes === undefined) return undefined;
    const undo = [
      ...changes,
      ...this.#pending.filter((change) => change.resource === resource),
    ].reverse();
    if (undo.length === 0) return this.list(resource, namespace, after);
    const objects = new Map(this.#tables.get(resource));
    for (const change of undo) {
      const key = keyOf(change.namespace, change.name);
      if (change.before === undefined) objects.delete(key);
      else objects.set(key, change.before);
    }
    const prefix = namespace === undefined ? '' : `${namespace}/`;
    return [...objects]
      .filter(([key]) => key.startsWith(prefix) && (after === undefined || key > after))
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([, stored]) => stored);
  }

  /** Returns a resource's changes after a version; undefined if they were compacted. */
  since(resource: string, version: number): readonly Change[] | undefined {
    return this.#log.since(resource, version);
  }

  /** Calls the listener with every durable change, in order. */
  onChange(listener: (change: Change) => void): void {
    this.#listeners.push(listener);
  }

  put(resource: string, object: ApiObject): Stored {
    return this.#write(resource, object, { deleted: false });
  }

  /** Removes the object. `last` is the state that watchers receive. */
  remove(resource: string, last: ApiObject): Stored {
    return this.#write(resource, last, { deleted: true });
  }

  #write(resource: string, object: ApiObject, { deleted }: { readonly deleted: boolean }): Stored {
    if (this.#closed) throw new StorageError('Closed', 'the control plane has been closed');
    const { namespace = '', name } = object.metadata;
    const version = this.#revision + 1;
    const versioned = withMeta(object, { resourceVersion: String(version) });
    const after: Stored = { object: versioned, json: JSON.stringify(versioned), version };
    const key = keyOf(namespace, name);
    const before = this.#tables.get(resource)?.get(key);
    this.#revision = version;
    this.#place(resource, key, deleted ? undefined : after);
    this.#pending.push({ resource, namespace, name, version, before, after, deleted });
    if (!this.#journal.durable) this.#flush();
    else if (this.#commit === undefined) {
      this.#commit = Promise.withResolvers();
      // The handler avoids an unhandled rejection. Callers that need the write use `committed`.
      this.#commit.promise.catch(() => undefined);
      // The writes of one turn of the event loop share one wait for the disk.
      setImmediate(() => this.#flush());
    }
    return after;
  }

  #place(resource: string, key: string, stored: Stored | undefined): void {
    const table = this.#tables.get(resource) ?? new Map<string, Stored>();
    this.#tables.set(resource, table);
    if (stored === undefined) table.delete(key);
    else table.set(key, stored);
  }

  /** Resolves when all writes so far are durable. @throws StorageError when they have failed */
  committed(): Promise<void> {
    return this.#commit?.promise ?? Promise.resolve();
  }

  #flush(): void {
    const changes = this.#pending;
    const commit = this.#commit;
    this.#pending = [];
    this.#commit = undefined;
    if (changes.length === 0) {
      commit?.resolve();
      return;
    }
    try {
      this.#journal.append(
        changes.map(({ resource, namespace, name, version, after, deleted }) => ({
          resource,
          namespace,
          name,
          version,
          json: deleted ? undefined : after.json,
        })),
        this.#revision,
      );
    } catch (error) {
      // A failed write is undone. Its version is never assigned again.
      for (const { resource, namespace, name, before } of changes.reverse())
        this.#place(resource, keyOf(namespace, name), before);
      commit?.reject(
        new StorageError('WriteFailed', 'the storage could not be written', { cause: error }),
      );
      return;
    }
    for (const change of changes) {
      this.#log.append(change);
      for (const listener of this.#listeners) listener(change);
    }
    commit?.resolve();
  }

  /** Drops changes up to a version: watches and lists from earlier versions have to start over. */
  compactTo(version: number): void {
    this.#log.compactTo(version);
  }

  /** Writes pending changes and closes the file. */
  close(): void {
    if (this.#closed) return;
    this.#flush();
    this.#closed = true;
    this.#journal.close();
  }
}
