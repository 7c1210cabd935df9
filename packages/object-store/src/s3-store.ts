import { systemClock, type Clock } from '@conversation-operator/base/clock';
import type { Outward } from '@conversation-operator/outward/outward';
import { inBatches, inParallel, runningCalls } from './calls.ts';
import {
  checkBody,
  checkedList,
  checkKey,
  checkRange,
  isBeginning,
  isKey,
  maxObjectBytes,
  type ByteRange,
  type ListPage,
  type ObjectStore,
  type StoredName,
  StoreError,
} from './object-store.ts';
import { createS3Client, type S3Answer, type S3Client } from './s3-client.ts';
import type { CredentialSource } from './credentials.ts';
import { childrenOf, readXml, textAt, type XmlElement } from './xml.ts';

interface S3AddressOptions {
  /** Default: the endpoint of AWS in the region. */
  readonly endpoint?: string | undefined;
  readonly region: string;
  readonly bucket: string;
  /** Segments before all keys, joined by `/`. Default: none. */
  readonly prefix?: string | undefined;
  /**
   * Whether the bucket is in the path of URLs and not in their host. Default: true with an
   * `endpoint`, or for a bucket with a dot, which no certificate covers.
   */
  readonly pathStyle?: boolean | undefined;
}

interface S3Address {
  /** Beginning of all keys in the bucket; empty, or with a `/` at its end. */
  readonly prefix: string;
  urlOf(key: string): URL;
  /** URL of the bucket with these parameters. */
  listUrl(query: Readonly<Record<string, string>>): URL;
}

const maxPrefixLength = 200;

/** Returns the URLs of a bucket. Throws an `invalid` error that names the option. */
export function s3Address(options: S3AddressOptions): S3Address {
  const { region, bucket, endpoint = endpointOf(region) } = options;
  check(/^[A-Za-z0-9-]{1,64}$/.test(region), 'region is no name of a region');
  check(
    /^[A-Za-z0-9][A-Za-z0-9._-]{1,62}$/.test(bucket) && !bucket.includes('..'),
    'bucket is no name of a bucket',
  );
  const base = URL.parse(endpoint);
  check(
    base !== null && ['http:', 'https:'].includes(base.protocol),
    'endpoint is no URL of http or https',
  );
  check(
    `${base.username}${base.password}${base.search}${base.hash}` === '',
    'endpoint has more than an origin and a path',
  );
  const prefix = (options.prefix ?? '').replace(/\/$/, '');
  check(
    prefix === '' || (isKey(prefix) && prefix.length <= maxPrefixLength),
    `prefix is not the beginning of keys, or longer than ${maxPrefixLength} characters`,
  );

  const { pathStyle = options.endpoint !== undefined || bucket.includes('.') } = options;
  const path = base.pathname.replace(/\/+$/, '');
  if (!pathStyle) base.hostname = `${bucket}.${base.hostname}`;
  check(
    pathStyle || base.hostname.startsWith(`${bucket.toLowerCase()}.`),
    'endpoint is an address',
  );
  const root = `${base.origin}${path}${pathStyle ? `/${bucket}` : ''}`;
  const beginning = prefix === '' ? '' : `${prefix}/`;
  return {
    prefix: beginning,
    urlOf: (key) => new URL(`${root}/${beginning}${key}`),
    listUrl: (query) => new URL(`${root}${pathStyle ? '' : '/'}?${queryOf(query)}`),
  };
}

const endpointOf = (region: string): string =>
  `https://s3.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`;

/** Spaces are `%20`, as the signature has them. */
const queryOf = (query: Readonly<Record<string, string>>): string =>
  Object.entries(query)
    .map((pair) => pair.map(encodeURIComponent).join('='))
    .join('&');

function check(condition: boolean, problem: string): asserts condition {
  if (!condition) throw new StoreError('invalid', `Settings of the object store: ${problem}`);
}

export interface S3StoreOptions extends S3AddressOptions {
  /** Encryption that each put asks for. Default: that of the bucket. */
  readonly serverSideEncryption?: 'AES256' | 'aws:kms' | undefined;
  /** Id or ARN of the key; with `aws:kms` alone. Default: the key of the account. */
  readonly kmsKeyId?: string | undefined;
  readonly credentials: CredentialSource;
  /** Maximum time of a request with its retries, in milliseconds. Default 10,000. */
  readonly timeoutMs?: number | undefined;
  /** Default: the clock of the system. */
  readonly clock?: Clock | undefined;
  /** Random numbers from 0 to below 1. Default: `Math.random`. */
  readonly random?: (() => number) | undefined;
  readonly outward: Outward;
}

const maxListBytes = 4 * 1024 * 1024;
const maxPutAnswerBytes = 64 * 1024;
const deletionsAtOnce = 16;
const deletionsOfBatch = 1000;

/**
 * Stores objects in a bucket of S3, or of a server that is compatible with it, under a prefix.
 * Needs the permissions `s3:GetObject`, `s3:PutObject`, `s3:DeleteObject`, and `s3:ListBucket`,
 * without which S3 answers `AccessDenied` for an object that does not exist. Throws an `invalid`
 * error for settings that no bucket can have.
 */
export function createS3Store(options: S3StoreOptions): ObjectStore {
  const { timeoutMs = 10_000, clock = systemClock, random = Math.random } = options;
  const { region, credentials, outward } = options;
  const address = s3Address(options);
  const encryption = encryptionOf(options);
  const client = createS3Client({ region, credentials, timeoutMs, clock, random, outward });
  const calls = runningCalls();

  return {
    put: (key, body, { signal } = {}) =>
      calls.run(async () => {
        checkKey(key);
        checkBody(key, body);
        const answer = await client.call({
          method: 'PUT',
          url: address.urlOf(key),
          headers: encryption,
          body,
          signal,
          maxBytes: maxPutAnswerBytes,
        });
        if (answer === undefined) throw unexpected('a put', answer);
      }),
    get: (key, { range, signal } = {}) =>
      calls.run(async () => {
        checkKey(key);
        if (range !== undefined) checkRange(range);
        const answer = await client.call({
          method: 'GET',
          url: address.urlOf(key),
          headers: rangeHeader(range),
          signal,
          maxBytes: maxObjectBytes,
        });
        return answer === undefined ? undefined : bytesOf(answer, range);
      }),
    delete: (keys, { signal } = {}) =>
      calls.run(async () => {
        keys.forEach(checkKey);
        // A request for each object: the one for several objects needs checksums, about which
        // servers differ, and some do not have it.
        for (const batch of inBatches(keys, deletionsOfBatch))
          await inParallel(batch, deletionsAtOnce, async (key) => {
            await client.call({
              method: 'DELETE',
              url: address.urlOf(key),
              signal,
              maxBytes: maxPutAnswerBytes,
            });
          });
      }),
    list: (listOptions) =>
      calls.run(() =>
        list(client, address, { ...checkedList(listOptions), signal: listOptions.signal }),
      ),
    async close() {
      await calls.close();
      await client.close();
    },
  };
}

function encryptionOf({
  serverSideEncryption,
  kmsKeyId,
}: S3StoreOptions): Readonly<Record<string, string>> {
  if (kmsKeyId !== undefined) {
    const isKeyId = /^[\w:/.-]{1,2048}$/.test(kmsKeyId);
    if (serverSideEncryption !== 'aws:kms' || !isKeyId)
      throw new StoreError(
        'invalid',
        'Settings of the object store: kmsKeyId is no key, or without aws:kms',
      );
  }
  return {
    ...(serverSideEncryption !== undefined && {
      'x-amz-server-side-encryption': serverSideEncryption,
    }),
    ...(kmsKeyId !== undefined && { 'x-amz-server-side-encryption-aws-kms-key-id': kmsKeyId }),
  };
}

const rangeHeader = (range: ByteRange | undefined) =>
  range === undefined
    ? undefined
    : { range: `bytes=${range.offset}-${range.offset + range.length - 1}` };

/** The bytes of the range, also of a server that ignores ranges and answers the whole object. */
function bytesOf(answer: S3Answer, range: ByteRange | undefined): Buffer {
  const { status, header, body } = answer;
  if (range === undefined) {
    if (status !== 200) throw unexpected('a read', answer);
    return body;
  }
  const { offset, length } = range;
  if (status === 416) return body;
  if (status === 200) return Buffer.from(body.subarray(offset, offset + length));
  const start = /^bytes (\d{1,16})-/.exec(header('content-range') ?? '')?.[1];
  if (status !== 206 || Number(start) !== offset || body.length > length)
    throw unexpected('a range', answer);
  return body;
}

async function list(
  client: S3Client,
  address: ReturnType<typeof s3Address>,
  options: ReturnType<typeof checkedList> & { readonly signal: AbortSignal | undefined },
): Promise<ListPage> {
  const { prefix, summed, after, limit, signal } = options;
  const first: Readonly<Record<string, string>> = {
    'list-type': '2',
    'max-keys': String(limit),
    ...(`${address.prefix}${prefix}` !== '' && { prefix: `${address.prefix}${prefix}` }),
    ...(summed && { delimiter: '/' }),
  };
  const starting = after === '' ? {} : { 'start-after': `${address.prefix}${after}` };
  let token: string | undefined;
  for (;;) {
    const continuing = token === undefined ? starting : { 'continuation-token': token };
    const answer = await client.call({
      method: 'GET',
      url: address.listUrl({ ...first, ...continuing }),
      signal,
      maxBytes: maxListBytes,
    });
    if (answer?.status !== 200) throw unexpected('a list', answer);
    const page = readS3List(answer.body);
    // The keys of a prefix are behind it, so that a page that starts after it has it again.
    const found = page.names.flatMap((name): readonly StoredName[] => {
      const key = name.key.slice(address.prefix.length);
      const isWanted = name.key.startsWith(`${address.prefix}${prefix}`) && key > after;
      const isName = summed && key.endsWith('/') ? key !== prefix && isBeginning(key) : isKey(key);
      return isWanted && isName ? [{ ...name, key }] : [];
    });
    const names = found.slice(0, limit);
    const isLast = !page.isTruncated && found.length <= limit;
    // A page of nothing but such keys has no name after which the next one begins.
    if (isLast || names.length > 0) return { names, next: isLast ? undefined : names.at(-1)?.key };
    if (page.token === undefined || page.token === token)
      throw new StoreError('invalid', 'A list of the object store does not continue');
    token = page.token;
  }
}

const unexpected = (call: string, answer: S3Answer | undefined): StoreError =>
  new StoreError(
    'invalid',
    `The object store has answered ${call} with an unexpected ${answer?.status ?? 404}`,
  );

/** A page of ListObjectsV2, with keys of the bucket. */
interface S3ListPage {
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
function readS3List(body: Buffer): S3ListPage {
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
