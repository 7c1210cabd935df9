import { proxyErrorIn } from '@conversation-operator/outward/proxy-error';
import { systemCodeOf } from '@conversation-operator/base/system-code';

/**
 * - denied: the credentials do not allow the call, or there are none.
 * - missing: the bucket or the folder does not exist.
 * - invalid: the store rejects the request, and would do so again.
 * - throttled: the store limits the requests.
 * - unavailable: the store can't be reached, has failed, or has no space.
 * - timeout: the store has not answered in time. A write may take effect later.
 */
export type StoreErrorCode =
  'denied' | 'missing' | 'invalid' | 'throttled' | 'unavailable' | 'timeout';

/** Error of a store. The message contains neither credentials nor bytes of an object. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly code: StoreErrorCode;

  constructor(code: StoreErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Returns the error of a call without a complete response. The message names a failed proxy. */
export function unreachable(subject: string, error: unknown): StoreError {
  const proxyError = proxyErrorIn(error);
  const reason = proxyError?.message ?? systemCodeOf(error) ?? 'the connection has failed';
  return new StoreError('unavailable', `${subject} can not be reached: ${reason}`, {
    cause: error,
  });
}

export interface StoreCallOptions {
  /** An abort rejects the call with the signal's reason. A write may still take effect. */
  readonly signal?: AbortSignal | undefined;
}

/** A part of an object, in bytes. A part that is too long ends at the end of the object. */
export interface ByteRange {
  readonly offset: number;
  /** At least 1. */
  readonly length: number;
}

export interface StoredName {
  /** Key of an object, or a common prefix of several keys that ends in `/`. */
  readonly key: string;
  /** Size of the object in bytes; 0 for a prefix. */
  readonly bytes: number;
}

export interface ListPage {
  /** The names in ascending order of their UTF-8 bytes. */
  readonly names: readonly StoredName[];
  /** Value of `after` for the next page; undefined: this page is the last one. */
  readonly next: string | undefined;
}

export interface ListOptions extends StoreCallOptions {
  /** Lists only keys that begin with this text. */
  readonly prefix: string;
  /** Whether keys with a `/` after `prefix` are listed as common prefixes. Default: false. */
  readonly summed?: boolean | undefined;
  /** Lists only names after this one, for example after `next` of the previous page. */
  readonly after?: string | undefined;
  /** Maximum names of the page: 1 to 1000, by default 1000. */
  readonly limit?: number | undefined;
}

export const maxObjectBytes = 64 * 1024 * 1024;

/**
 * A store of named bytes. Keys are segments of 1 to 200 characters from `A-Z a-z 0-9 . _ -`, other
 * than `.` and `..`, joined by `/`; at most 800 characters in all. No key is the folder of another
 * one: with the key `a/b`, there is no key `a`. An object has at most `maxObjectBytes`. Every
 * method rejects with a `StoreError`, has a deadline, and retries requests that are safe to repeat.
 * A stored object exists for every later call of every process. An object is stored as a whole or
 * not at all: no reader sees a part of an object.
 */
export interface ObjectStore {
  /** Stores or replaces an object, which is durable when the promise resolves. */
  put(key: string, body: Uint8Array, options?: StoreCallOptions): Promise<void>;
  /** Returns undefined if there is no object, and no bytes if the range begins after the object. */
  get(
    key: string,
    options?: StoreCallOptions & { readonly range?: ByteRange | undefined },
  ): Promise<Buffer | undefined>;
  /** Deletes any number of objects. Ignores keys without an object. */
  delete(keys: readonly string[], options?: StoreCallOptions): Promise<void>;
  list(options: ListOptions): Promise<ListPage>;
  close(): Promise<void>;
}

const maxKeyLength = 800;
const maxNamesOfPage = 1000;
const segment = /^[A-Za-z0-9._-]{1,200}$/;
const beginning = /^[A-Za-z0-9._-]{0,200}$/;

export const isSegment = (text: string): boolean =>
  segment.test(text) && text !== '.' && text !== '..';

export const isKey = (text: string): boolean =>
  text.length <= maxKeyLength && text.split('/').every(isSegment);

/** Whether keys can begin with this text. */
export function isBeginning(text: string): boolean {
  const segments = text.split('/');
  const last = segments.pop() ?? '';
  return text.length <= maxKeyLength && segments.every(isSegment) && beginning.test(last);
}

/** Throws an `invalid` error for an invalid key. The message truncates a long key. */
export function checkKey(key: string): void {
  if (!isKey(key)) throw new StoreError('invalid', `${quoted(key)} is no key of an object`);
}

export function checkBody(key: string, body: Uint8Array): void {
  if (body.byteLength <= maxObjectBytes) return;
  const message = `The object ${key} has ${body.byteLength} bytes; ${maxObjectBytes} are allowed`;
  throw new StoreError('invalid', message);
}

export function checkRange({ offset, length }: ByteRange): void {
  const isRange =
    Number.isSafeInteger(offset) && offset >= 0 && Number.isSafeInteger(length) && length >= 1;
  if (!isRange || !Number.isSafeInteger(offset + length))
    throw new StoreError('invalid', `There is no range of ${length} bytes at ${offset}`);
}

/** Returns the options with defaults. Throws an `invalid` error for an invalid option. */
export function checkedList({ prefix, summed = false, after = '', limit }: ListOptions) {
  const names = limit ?? maxNamesOfPage;
  if (!isBeginning(prefix)) throw new StoreError('invalid', `No key begins with ${quoted(prefix)}`);
  if (!isBeginning(after))
    throw new StoreError('invalid', `No page of a list ends with ${quoted(after)}`);
  if (!Number.isInteger(names) || names < 1 || names > maxNamesOfPage)
    throw new StoreError('invalid', `A page has 1 to ${maxNamesOfPage} names, not ${names}`);
  return { prefix, summed, after, limit: names };
}

const quoted = (text: string): string =>
  JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text);
