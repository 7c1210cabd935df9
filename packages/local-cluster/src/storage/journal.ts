/** One object as it stands on disk. */
export interface Row {
  /** `group/plural` */
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
  readonly version: number;
  /** undefined: the object is gone. */
  readonly json: string | undefined;
}

/** Where objects outlive the process. */
export interface Journal {
  /** Everything stored, and the highest version ever given out. */
  load(): { readonly rows: readonly Row[]; readonly revision: number };
  /** Returns when all of the rows are durable, throws when none is. */
  append(rows: readonly Row[], revision: number): void;
  close(): void;
  /** Whether `append` costs a wait for the disk, so that writes are better gathered. */
  readonly durable: boolean;
}

/** For tests and simulations: nothing outlives the process. */
export const volatileJournal: Journal = {
  load: () => ({ rows: [], revision: 0 }),
  append: () => undefined,
  close: () => undefined,
  durable: false,
};
