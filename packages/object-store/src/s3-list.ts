import type { StoredName } from './object-store.ts';
import { StoreError } from './store-error.ts';
import { childrenOf, readXml, textAt, type XmlElement } from './xml.ts';

/** A page of ListObjectsV2, with keys of the bucket. */
export interface S3ListPage {
  /** Objects and prefixes in ascending order, also those whose keys no store has. */
  readonly names: readonly StoredName[];
  readonly isTruncated: boolean;
  readonly token: string | undefined;
}

/**
 * Reads an answer to ListObjectsV2. Throws an `invalid` error for one that is no such answer, or
 * whose keys are not in ascending order, as those of S3's directory buckets: a list by pages would
 * miss keys there.
 */
export function readS3List(body: Buffer): S3ListPage {
  const root = readXml(body.toString('utf8'));
  if (root?.name !== 'ListBucketResult') throw invalid('is not the answer to ListObjectsV2');
  const objects = childrenOf(root, 'Contents').map((object) => ({
    key: textOf(object, 'Key'),
    bytes: sizeOf(object),
  }));
  const prefixes = childrenOf(root, 'CommonPrefixes').map((prefix) => ({
    key: textOf(prefix, 'Prefix'),
    bytes: 0,
  }));
  for (const names of [objects, prefixes])
    if (names.some(({ key }, index) => index > 0 && isBefore(key, names[index - 1]?.key ?? '')))
      throw invalid('does not have the keys in ascending order');
  const isTruncated = textAt(root, 'IsTruncated')?.trim() === 'true';
  const token = textAt(root, 'NextContinuationToken');
  return {
    names: [...objects, ...prefixes].sort((a, b) => (a.key < b.key ? -1 : Number(a.key > b.key))),
    isTruncated,
    token,
  };
}

/** Keys that are not ASCII have another order in UTF-16 than in UTF-8. */
const isBefore = (a: string, b: string): boolean =>
  Buffer.compare(Buffer.from(a), Buffer.from(b)) < 0;

function textOf(element: XmlElement, name: string): string {
  const text = textAt(element, name);
  if (text === undefined) throw invalid(`has no ${name} of an entry`);
  return text;
}

function sizeOf(object: XmlElement): number {
  const text = textOf(object, 'Size').trim();
  if (!/^\d{1,15}$/.test(text)) throw invalid('has no valid Size of an object');
  return Number(text);
}

const invalid = (problem: string): StoreError =>
  new StoreError('invalid', `A list of the object store ${problem}`);
