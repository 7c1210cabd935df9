import type { ListObjectsV2CommandOutput } from '@aws-sdk/client-s3';
import { isIP } from 'node:net';
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
  type ByteRange,
  type ListPage,
  type ObjectStore,
  type StoredName,
  StoreError,
} from './object-store.ts';
import type { S3Calls, S3Object } from './s3-client.ts';
import type { CredentialSource } from './s3-credentials.ts';

interface S3AddressOptions {
  /** Default: the AWS endpoint of the region. */
  readonly endpoint?: string | undefined;
  readonly region: string;
  readonly bucket: string;
  /** Beginning of all keys: segments joined by `/`. Default: none. */
  readonly prefix?: string | undefined;
  /**
   * Whether URLs have the bucket in the path instead of the host. Default: true with an `endpoint`,
   * and for a bucket with a dot in its name, because no wildcard certificate covers its host.
   */
  readonly pathStyle?: boolean | undefined;
}

const maxPrefixLength = 200;

/** Returns the settings with defaults. Throws an `invalid` error that names the option. */
function checkedAddress(options: S3AddressOptions) {
  const { region, bucket, endpoint } = options;
  check(/^[A-Za-z0-9-]{1,64}$/.test(region), 'region is no name of a region');
  check(
    /^[A-Za-z0-9][A-Za-z0-9._-]{1,62}$/.test(bucket) && !bucket.includes('..'),
    'bucket is no name of a bucket',
  );
  const { pathStyle = endpoint !== undefined || bucket.includes('.') } = options;
  if (endpoint !== undefined) {
    const base = URL.parse(endpoint);
    check(
      base !== null && ['http:', 'https:'].includes(base.protocol),
      'endpoint is no URL of http or https',
    );
    check(
      `${base.username}${base.password}${base.search}${base.hash}` === '',
      'endpoint has more than an origin and a path',
    );
    const isAddress = isIP(base.hostname.replace(/^\[(.*)\]$/, '$1')) !== 0;
    check(pathStyle || !isAddress, 'endpoint is an address');
  }
  const prefix = (options.prefix ?? '').replace(/\/$/, '');
  check(
    prefix === '' || (isKey(prefix) && prefix.length <= maxPrefixLength),
    `prefix is not the beginning of keys, or longer than ${maxPrefixLength} characters`,
  );
  return { region, bucket, endpoint, pathStyle, prefix: prefix === '' ? '' : `${prefix}/` };
}

function check(condition: boolean, problem: string): asserts condition {
  if (!condition) throw new StoreError('invalid', `Settings of the object store: ${problem}`);
}

export interface S3StoreOptions extends S3AddressOptions {
  /** Server-side encryption of each put. Default: that of the bucket. */
  readonly serverSideEncryption?: 'AES256' | 'aws:kms' | undefined;
  /** Id or ARN of the key, only with `aws:kms`. Default: the key of the account. */
  readonly kmsKeyId?: string | undefined;
  /** Credentials for the bucket. Default: AWS's default chain, such as environment variables. */
  readonly credentials?: CredentialSource | undefined;
  /** Maximum time of a request with its retries, in milliseconds. Default 10,000. */
  readonly timeoutMs?: number | undefined;
  /** Default: the clock of the system. */
  readonly clock?: Clock | undefined;
  readonly outward: Outward;
}

const deletionsAtOnce = 16;
const deletionsOfBatch = 1000;

/**
 * Stores objects under a prefix in a bucket of S3 or of a compatible server. Needs the permissions
 * `s3:GetObject`, `s3:PutObject`, `s3:DeleteObject`, and `s3:ListBucket`, without which S3 answers
 * `AccessDenied` for an absent object. Throws an `invalid` error for impossible settings.
 */
export function createS3Store(options: S3StoreOptions): ObjectStore {
  const { timeoutMs = 10_000, clock = systemClock, credentials, outward } = options;
  const { region, bucket, endpoint, pathStyle, prefix } = checkedAddress(options);
  const encryption = encryptionOf(options);
  // AWS's client takes 18 MiB and 0.1 s, so a process without a bucket does not load it.
  const client = import('./s3-client.ts').then(({ createS3Client }) =>
    createS3Client({ region, bucket, endpoint, pathStyle, credentials, timeoutMs, clock, outward }),
  );
  // Each call of the store rejects with the error of a failed import.
  client.catch(() => undefined);
  const calls = runningCalls();

  return {
    put: (key, body, { signal } = {}) =>
      calls.run(async () => {
        checkKey(key);
        checkBody(key, body);
        const s3 = await client;
        await s3.put({ Key: `${prefix}${key}`, Body: body, ...encryption }, signal);
      }),
    get: (key, { range, signal } = {}) =>
      calls.run(async () => {
        checkKey(key);
        if (range !== undefined) checkRange(range);
        const s3 = await client;
        const found = await s3.get(`${prefix}${key}`, rangeHeader(range), signal);
        return found === undefined ? undefined : bytesOf(found, range);
      }),
    delete: (keys, { signal } = {}) =>
      calls.run(async () => {
        keys.forEach(checkKey);
        const s3 = await client;
        // Deletes each object with its own request. Some servers lack the request for several
        // objects, and servers differ in the checksums that the request needs.
        for (const batch of inBatches(keys, deletionsOfBatch))
          await inParallel(batch, deletionsAtOnce, (key) => s3.delete(`${prefix}${key}`, signal));
      }),
    list: (listOptions) =>
      calls.run(async () =>
        list(await client, prefix, { ...checkedList(listOptions), signal: listOptions.signal }),
      ),
    async close() {
      await calls.close();
      const s3 = await client;
      await s3.close();
    },
  };
}

function encryptionOf({ serverSideEncryption, kmsKeyId }: S3StoreOptions) {
  if (kmsKeyId !== undefined) {
    const isKeyId = /^[\w:/.-]{1,2048}$/.test(kmsKeyId);
    if (serverSideEncryption !== 'aws:kms' || !isKeyId)
      throw new StoreError(
        'invalid',
        'Settings of the object store: kmsKeyId is no key, or without aws:kms',
      );
  }
  return {
    ...(serverSideEncryption !== undefined && { ServerSideEncryption: serverSideEncryption }),
    ...(kmsKeyId !== undefined && { SSEKMSKeyId: kmsKeyId }),
  };
}

const rangeHeader = (range: ByteRange | undefined) =>
  range === undefined ? undefined : `bytes=${range.offset}-${range.offset + range.length - 1}`;

/** Returns the bytes of the range, even if a server ignores it and returns the whole object. */
function bytesOf({ output, body }: S3Object, range: ByteRange | undefined): Buffer {
  if (range === undefined || output === undefined) return body;
  const { offset, length } = range;
  if (output.$metadata.httpStatusCode === 200)
    return Buffer.from(body.subarray(offset, offset + length));
  const start = /^bytes (\d{1,16})-/.exec(output.ContentRange ?? '')?.[1];
  if (Number(start) !== offset || body.length > length)
    throw new StoreError('invalid', 'The object store has answered another range');
  return body;
}

async function list(
  client: S3Calls,
  root: string,
  options: ReturnType<typeof checkedList> & { readonly signal: AbortSignal | undefined },
): Promise<ListPage> {
  const { prefix, summed, after, limit, signal } = options;
  const first = {
    MaxKeys: limit,
    ...(`${root}${prefix}` !== '' && { Prefix: `${root}${prefix}` }),
    ...(summed && { Delimiter: '/' }),
  };
  const starting = after === '' ? {} : { StartAfter: `${root}${after}` };
  let token: string | undefined;
  for (;;) {
    const continuing = token === undefined ? starting : { ContinuationToken: token };
    const page = await client.list({ ...first, ...continuing }, signal);
    // The keys in a common prefix follow it, so the page after a prefix contains the prefix again.
    const found = namesOf(page).flatMap((name): readonly StoredName[] => {
      const key = name.key.slice(root.length);
      const isWanted = name.key.startsWith(`${root}${prefix}`) && key > after;
      const isName = summed && key.endsWith('/') ? key !== prefix && isBeginning(key) : isKey(key);
      return isWanted && isName ? [{ ...name, key }] : [];
    });
    const names = found.slice(0, limit);
    const isLast = page.IsTruncated !== true && found.length <= limit;
    // A page of only unwanted names has no name after which the next page could begin.
    if (isLast || names.length > 0) return { names, next: isLast ? undefined : names.at(-1)?.key };
    const { NextContinuationToken: next } = page;
    if (next === undefined || next === token) throw invalid('does not continue');
    token = next;
  }
}

/**
 * Returns objects and common prefixes in ascending order, including those with invalid keys. Throws
 * an `invalid` error if the response is not a list or not in ascending order, as in S3's directory
 * buckets, because paging would miss keys there.
 */
function namesOf(page: ListObjectsV2CommandOutput): readonly StoredName[] {
  // Every list has this element. An error page of a proxy does not have it.
  if (page.IsTruncated === undefined) throw invalid('is not the answer to ListObjectsV2');
  const objects = (page.Contents ?? []).map(({ Key, Size }) => nameOf(Key, Size));
  const prefixes = (page.CommonPrefixes ?? []).map(({ Prefix }) => nameOf(Prefix, 0));
  for (const names of [objects, prefixes])
    if (names.some(({ key }, index) => index > 0 && isBefore(key, names[index - 1]?.key ?? '')))
      throw invalid('does not have the keys in ascending order');
  return [...objects, ...prefixes].sort((a, b) => (a.key < b.key ? -1 : Number(a.key > b.key)));
}

function nameOf(key: string | undefined, bytes: number | undefined): StoredName {
  if (key === undefined) throw invalid('has no key of an entry');
  if (bytes === undefined || !Number.isSafeInteger(bytes) || bytes < 0)
    throw invalid('has no valid size of an object');
  return { key, bytes };
}

/** Compares the UTF-8 bytes, because keys that are not ASCII sort differently in UTF-16. */
const isBefore = (a: string, b: string): boolean =>
  Buffer.compare(Buffer.from(a), Buffer.from(b)) < 0;

const invalid = (problem: string): StoreError =>
  new StoreError('invalid', `A list of the object store ${problem}`);
