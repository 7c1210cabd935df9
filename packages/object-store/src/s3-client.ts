import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { AwsV4Signer } from 'aws4fetch';
import { backoffDelayMs } from '@conversation-operator/base/backoff';
import { sleep, type Clock } from '@conversation-operator/base/clock';
import type { Outward } from '@conversation-operator/outward/outward';
import { withDeadline, sendHttp, type HttpAnswer } from './calls.ts';
import type { CredentialSource, Credentials } from './credentials.ts';
import { maxErrorBytes, s3FailureOf, type S3Failure } from './s3-errors.ts';
import { StoreError, unreachable } from './object-store.ts';

export interface S3Call {
  readonly method: 'GET' | 'PUT' | 'DELETE';
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: Uint8Array | undefined;
  /** Maximum size of the body of a success, in bytes. */
  readonly maxBytes: number;
  readonly signal: AbortSignal | undefined;
}

export interface S3Answer {
  readonly status: number;
  readonly header: HttpAnswer['header'];
  readonly body: Buffer;
}

export interface S3Client {
  /**
   * Returns a success, or 416 for a range behind the end; undefined: there is no such object.
   * Rejects with a `StoreError`, or the reason of the signal. Requests are repeated, so that each
   * must be one whose second execution has the effect of the first.
   */
  call(call: S3Call): Promise<S3Answer | undefined>;
  /** Ends all connections. */
  close(): Promise<void>;
}

export interface S3ClientOptions {
  readonly region: string;
  readonly credentials: CredentialSource;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly random: () => number;
  readonly outward: Outward;
}

const maxAttempts = 3;
const retryDelay = { baseMs: 100, capMs: 2000, jitter: 1 };
const maxRetryAfterMs = 5000;
const maxConnectMs = 3000;
const connections = 32;

/** A client of S3 that signs its requests with Signature Version 4 in their headers. */
export function createS3Client(options: S3ClientOptions): S3Client {
  const { region, credentials, timeoutMs, clock, random, outward } = options;
  const dispatcher = outward.pool({
    connections,
    connectTimeoutMs: Math.min(maxConnectMs, Math.ceil(timeoutMs / 3)),
  });
  const sign = signerFor(region);
  /** Time of the server less the time of this machine. */
  let skewMs = 0;
  /** Whether the bucket has required checksums of a request. */
  let isWithChecksums = false;

  const send = async (call: S3Call, using: Credentials, sha256: string, signal: AbortSignal) => {
    const { method, url, body, maxBytes } = call;
    const headers = await sign(using, clock.now() + skewMs, method, url, {
      ...call.headers,
      ...(isWithChecksums && body !== undefined && checksumsOf(body)),
      'x-amz-content-sha256': sha256,
    });
    return await sendHttp({
      dispatcher,
      method,
      url,
      headers,
      body,
      signal,
      maxBytes: (status) => (status < 300 ? maxBytes : maxErrorBytes),
    });
  };

  /** One attempt. `rejected`: credentials that the store has rejected in this call. */
  const attempt = async (
    call: S3Call,
    sha256: string,
    rejected: Credentials | undefined,
    signal: AbortSignal,
  ): Promise<Attempt> => {
    let using: Credentials | undefined;
    try {
      using = await credentials(rejected);
      const answer = await send(call, using, sha256, signal);
      const { status, header, body } = answer;
      if (status >= 200 && status < 300)
        return body === undefined
          ? failed(new StoreError('invalid', 'The answer of the object store is too large'))
          : { answer: { status, header, body } };
      if (status === 416 && call.headers?.['range'] !== undefined)
        return { answer: { status, header, body: Buffer.alloc(0) } };
      const failure = s3FailureOf(answer, secretsOf(using));
      if (status === 404 && noSuchObject.has(failure.s3Code)) return { answer: undefined };
      const { next } = failure;
      if (next === 'correct-clock') {
        const serverTime = Date.parse(header('date') ?? '');
        if (Number.isNaN(serverTime)) return failed(failure.error);
        return { ...failed(failure.error, next), serverTime };
      }
      return { ...failed(failure.error, next), using, retryAfterMs: retryAfterMs(answer) };
    } catch (error) {
      signal.throwIfAborted();
      // The source of the credentials has failed.
      if (error instanceof StoreError)
        return failed(error, passing.has(error.code) ? 'retry' : 'fail');
      return failed(unreachable('The object store', error), 'retry');
    }
  };

  const callUntil = async (
    call: S3Call,
    endsAt: number,
    signal: AbortSignal,
  ): Promise<S3Answer | undefined> => {
    const sha256 = createHash('sha256')
      .update(call.body ?? '')
      .digest('hex');
    const done = new Set<S3Failure['next']>();
    let rejected: Credentials | undefined;
    for (let failures = 1; ;) {
      const result = await attempt(call, sha256, rejected, signal);
      if (!('error' in result)) return result.answer;
      const { next, error } = result;
      if (next === 'fail') throw error;
      if (next === 'retry') {
        const delayMs = Math.max(
          backoffDelayMs(retryDelay, failures, random),
          result.retryAfterMs ?? 0,
        );
        failures += 1;
        // The error says more than the deadline that the next attempt would meet.
        if (failures > maxAttempts || clock.monotonic() + delayMs >= endsAt) throw error;
        await sleep(clock, delayMs, signal);
        continue;
      }
      if (done.has(next)) throw error;
      done.add(next);
      if (next === 'refresh-credentials') rejected = result.using;
      else if (next === 'add-checksums') isWithChecksums = true;
      else skewMs = (result.serverTime ?? clock.now()) - clock.now();
    }
  };

  return {
    call: (call) =>
      withDeadline(
        { clock, timeoutMs, signal: call.signal, subject: 'The object store' },
        (signal) => callUntil(call, clock.monotonic() + timeoutMs, signal),
      ),
    close: () => dispatcher.destroy(),
  };
}

type Attempt =
  | { readonly answer: S3Answer | undefined }
  | {
      readonly error: StoreError;
      readonly next: S3Failure['next'];
      readonly using?: Credentials;
      readonly serverTime?: number;
      readonly retryAfterMs?: number | undefined;
    };

const noSuchObject: ReadonlySet<string> = new Set(['NoSuchKey', 'NoSuchVersion']);
const passing: ReadonlySet<string> = new Set(['unavailable', 'throttled', 'timeout']);

const failed = (error: StoreError, next: S3Failure['next'] = 'fail') => ({ error, next });

const secretsOf = ({ accessKeyId, secretAccessKey, sessionToken = '' }: Credentials) => [
  ...[secretAccessKey, sessionToken, accessKeyId],
];

/** Seconds of the header alone; S3 sends no dates there. */
function retryAfterMs({ header }: HttpAnswer): number | undefined {
  const value = header('retry-after') ?? '';
  return /^\d{1,6}$/.test(value) ? Math.min(Number(value) * 1000, maxRetryAfterMs) : undefined;
}

/** Headers of a put into a bucket with an object lock; servers accept different ones. */
function checksumsOf(body: Uint8Array): Readonly<Record<string, string>> {
  const crc = Buffer.alloc(4);
  crc.writeUInt32BE(crc32(body));
  return {
    'content-md5': createHash('md5').update(body).digest('base64'),
    'x-amz-checksum-crc32': crc.toString('base64'),
  };
}

/** Signs headers. Keys that are derived from a secret are kept for as long as it is in use. */
function signerFor(region: string) {
  const derived = new WeakMap<Credentials, Map<string, ArrayBuffer>>();
  return async (
    credentials: Credentials,
    time: number,
    method: string,
    url: URL,
    headers: Readonly<Record<string, string>>,
  ): Promise<Readonly<Record<string, string>>> => {
    const { accessKeyId, secretAccessKey, sessionToken } = credentials;
    let cache = derived.get(credentials);
    // One key for each day.
    if (cache === undefined || cache.size > 2) {
      cache = new Map();
      derived.set(credentials, cache);
    }
    const signed = await new AwsV4Signer({
      method,
      url: url.href,
      headers,
      accessKeyId,
      secretAccessKey,
      region,
      service: 's3',
      ...(sessionToken !== undefined && { sessionToken }),
      cache,
      datetime: new Date(time).toISOString().replaceAll(/[:-]|\.\d{3}/g, ''),
    }).sign();
    return Object.fromEntries(signed.headers);
  };
}
