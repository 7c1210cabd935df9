import { maxObjectBytes, type ByteRange, type ListOptions } from './object-store.ts';
import { StoreError } from './store-error.ts';

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

/** Throws an `invalid` error for a key outside of the contract, whose text the message limits. */
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

/** The options of a list with their defaults. Throws an `invalid` error. */
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
