export interface StoreCallOptions {
  /** Ends the call with the reason of the signal. A write may take effect all the same. */
  readonly signal?: AbortSignal | undefined;
}

/** A part of an object, in bytes. The part ends with the object where that is shorter. */
export interface ByteRange {
  readonly offset: number;
  /** At least 1. */
  readonly length: number;
}

export interface StoredName {
  /** Key of an object, or a prefix that ends in `/` and that several keys have. */
  readonly key: string;
  /** Size of the object in bytes; 0 for a prefix. */
  readonly bytes: number;
}

export interface ListPage {
  /** In ascending order of their UTF-8 bytes. */
  readonly names: readonly StoredName[];
  /** Value of `after` for the next page; undefined: this page is the last one. */
  readonly next: string | undefined;
}

export interface ListOptions extends StoreCallOptions {
  /** Only keys that begin with this text. */
  readonly prefix: string;
  /** Whether keys with a `/` behind the prefix are summed up to prefixes. Default: false. */
  readonly summed?: boolean | undefined;
  /** Only names behind this one, or this one of an earlier page. */
  readonly after?: string | undefined;
  /** Maximum names of the page: 1 to 1000, by default 1000. */
  readonly limit?: number | undefined;
}

/** Maximum size of an object. */
export const maxObjectBytes = 64 * 1024 * 1024;

/**
 * A store of named bytes. Keys are segments of 1 to 200 characters from `A-Z a-z 0-9 . _ -`, other
 * than `.` and `..`, joined by `/`; at most 800 characters in all. No key is the beginning of
 * another one up to a `/`. An object has at most `maxObjectBytes`.
 *
 * Every method throws `StoreError`, has a deadline of its own, and retries what may be repeated. An
 * object that a call has stored is there for every later call of every process. An object is stored
 * as a whole or not at all: no reader sees a part of it.
 */
export interface ObjectStore {
  /** Stores an object, in place of one of the same key. Durable when the promise resolves. */
  put(key: string, body: Uint8Array, options?: StoreCallOptions): Promise<void>;
  /** Undefined: there is no such object. Empty: the range is behind the end of the object. */
  get(
    key: string,
    options?: StoreCallOptions & { readonly range?: ByteRange | undefined },
  ): Promise<Buffer | undefined>;
  /** Deletes objects, as far as they exist. Any number of keys. */
  delete(keys: readonly string[], options?: StoreCallOptions): Promise<void>;
  list(options: ListOptions): Promise<ListPage>;
  close(): Promise<void>;
}
