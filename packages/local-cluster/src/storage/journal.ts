/** One object on disk. */
export interface Row {
  /** Storage key of the kind, `group/plural`. */
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
  readonly version: number;
  /** Undefined: the object is deleted. */
  readonly json: string | undefined;
}

/** Durable storage of objects. */
export interface Journal {
  /** Returns all stored objects and the highest version ever assigned. */
  load(): { readonly rows: readonly Row[]; readonly revision: number };
  /** Returns when all rows are durable. Throws when none is. */
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
