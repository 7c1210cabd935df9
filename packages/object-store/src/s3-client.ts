import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import {
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  type GetObjectCommandOutput,
  type ListObjectsV2CommandInput,
  type ListObjectsV2CommandOutput,
  type PutObjectCommandInput,
} from '@aws-sdk/client-s3';
import type { HttpHandlerOptions, HttpRequest, HttpResponse, RequestHandler } from '@smithy/types';
import type { Clock } from '@conversation-operator/base/clock';
import type { Outward } from '@conversation-operator/outward/outward';
import { request, type Dispatcher } from 'undici';
import { readBounded, withDeadline } from './calls.ts';
import { maxObjectBytes, StoreError, unreachable } from './object-store.ts';
import type { CredentialSource } from './s3-credentials.ts';
import { credentialFailureOf, s3FailureOf, statusOf, type S3Failure } from './s3-errors.ts';

export interface S3ClientOptions {
  readonly region: string;
  readonly bucket: string;
  /** Undefined: the AWS endpoint of the region. */
  readonly endpoint: string | undefined;
  readonly pathStyle: boolean;
  /** Undefined: those of AWS's default chain, such as variables, a profile, or a web identity. */
  readonly credentials: CredentialSource | undefined;
  readonly timeoutMs: number;
  readonly clock: Pick<Clock, 'after'>;
  readonly outward: Outward;
}

type In<C> = Omit<C, 'Bucket'>;

/**
 * Requests to a bucket, which reject with a `StoreError` or the signal's reason. A request may be
 * retried, so repeating one must have no further effect.
 */
export interface S3Calls {
  put(input: In<PutObjectCommandInput>, signal: AbortSignal | undefined): Promise<void>;
  /** Returns undefined for an absent object, and no `output` if `range` begins after the object. */
  get(
    key: string,
    range: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<S3Object | undefined>;
  delete(key: string, signal: AbortSignal | undefined): Promise<void>;
  list(
    input: In<ListObjectsV2CommandInput>,
    signal: AbortSignal | undefined,
  ): Promise<ListObjectsV2CommandOutput>;
  close(): Promise<void>;
}

export interface S3Object {
  readonly output: GetObjectCommandOutput | undefined;
  readonly body: Buffer;
}

const maxAttempts = 3;
const maxConnectMs = 3000;
const connections = 32;

/** Creates an S3 client whose connections come from `outward.pool`. */
export function createS3Client(options: S3ClientOptions): S3Calls {
  const { region, bucket: Bucket, endpoint, pathStyle, credentials } = options;
  const { timeoutMs, clock, outward } = options;
  const dispatcher = outward.pool({
    connections,
    connectTimeoutMs: Math.min(maxConnectMs, Math.ceil(timeoutMs / 3)),
  });
  const client = new S3Client({
    region,
    ...(endpoint !== undefined && { endpoint }),
    forcePathStyle: pathStyle,
    ...(credentials !== undefined && { credentials }),
    requestHandler: handlerOver(dispatcher, timeoutMs),
    maxAttempts,
    // S3 servers differ in the checksums that they support, and undici rejects the header Expect.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    expectContinueHeader: false,
  });
  /** Whether the bucket has rejected a request without checksums. */
  let isWithChecksums = false;

  const identity = async (forceRefresh = false) => {
    try {
      return await client.config.credentials({ forceRefresh });
    } catch (error) {
      throw credentialFailureOf(error);
    }
  };

  const callUntil = async <T>(call: (signal: AbortSignal) => Promise<T>, signal: AbortSignal) => {
    const done = new Set<S3Failure['next']>();
    for (;;) {
      const using = await identity();
      try {
        return await call(signal);
      } catch (error) {
        signal.throwIfAborted();
        const failure = s3FailureOf(error, using);
        if (failure.next === 'fail' || done.has(failure.next)) throw failure.error;
        done.add(failure.next);
        if (failure.next === 'refresh-credentials') await identity(true);
        else isWithChecksums = true;
      }
    }
  };
  const run = <T>(
    signal: AbortSignal | undefined,
    call: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> =>
    withDeadline({ clock, timeoutMs, signal, subject: 'The object store' }, (within) =>
      callUntil(call, within),
    );

  return {
    put: (input, signal) =>
      run(signal, async (abortSignal) => {
        const checksums = isWithChecksums ? checksumsOf(input.Body) : {};
        await client.send(new PutObjectCommand({ Bucket, ...input, ...checksums }), {
          abortSignal,
        });
      }),
    get: (Key, Range, signal) =>
      run(signal, async (abortSignal) => {
        try {
          const output = await client.send(new GetObjectCommand({ Bucket, Key, Range }), {
            abortSignal,
          });
          return { output, body: await bytesOf(output.Body) };
        } catch (error) {
          if (isMissing(error)) return undefined;
          if (Range === undefined || !isBehindEnd(error)) throw error;
          return { output: undefined, body: Buffer.alloc(0) };
        }
      }),
    delete: (Key, signal) =>
      run(signal, async (abortSignal) => {
        try {
          await client.send(new DeleteObjectCommand({ Bucket, Key }), { abortSignal });
        } catch (error) {
          if (!isMissing(error)) throw error;
        }
      }),
    list: (input, signal) =>
      run(signal, (abortSignal) =>
        client.send(new ListObjectsV2Command({ Bucket, ...input }), { abortSignal }),
      ),
    async close() {
      client.destroy();
      await dispatcher.destroy();
    },
  };
}

const isMissing = (error: unknown): boolean =>
  error instanceof Error && ['NoSuchKey', 'NoSuchVersion'].includes(error.name);

const isBehindEnd = (error: unknown): boolean => statusOf(error) === 416;

/** Returns both checksums that servers may require for a put into a bucket with an object lock. */
const checksumsOf = (body: PutObjectCommandInput['Body']) => ({
  ...(body instanceof Uint8Array && {
    ContentMD5: createHash('md5').update(body).digest('base64'),
  }),
  ChecksumAlgorithm: 'CRC32' as const,
});

/** Returns the body, which `handlerOver` has already read into one chunk. */
async function bytesOf(body: GetObjectCommandOutput['Body']): Promise<Buffer> {
  const bytes = body instanceof Readable ? await readBounded(body, maxObjectBytes) : undefined;
  return bytes ?? Buffer.alloc(0);
}

/** Maximum size of a response that is neither an object nor a list, in bytes. */
const maxAnswerBytes = 64 * 1024;
const maxListBytes = 4 * 1024 * 1024;

function maxBytesOf({ method, query = {} }: HttpRequest, status: number): number {
  if (method !== 'GET' || status >= 300) return maxAnswerBytes;
  return 'list-type' in query ? maxListBytes : maxObjectBytes;
}

/**
 * Sends the requests of AWS's client. Reads the whole body, because the client retries only
 * failures of this handler. A request without a signal gets credentials. Its timeout is half of
 * `timeoutMs`, so that it ends before the call that needs the credentials.
 */
function handlerOver(
  dispatcher: Dispatcher,
  timeoutMs: number,
): RequestHandler<HttpRequest, HttpResponse, HttpHandlerOptions> {
  return {
    metadata: { handlerProtocol: 'http/1.1' },
    handle: async (sent, { abortSignal } = {}) => {
      const { method, headers } = sent;
      const signal = (abortSignal as AbortSignal | undefined) ?? AbortSignal.timeout(timeoutMs / 2);
      const body = sent.body as string | Uint8Array | undefined;
      try {
        const response = await request(urlOf(sent), {
          dispatcher,
          method,
          headers,
          body: body ?? null,
          signal,
        });
        const { statusCode } = response;
        const bytes = await readBounded(response.body, maxBytesOf(sent, statusCode));
        if (bytes === undefined && statusCode < 300)
          throw new StoreError('invalid', 'The answer of the object store is too large');
        const received = Object.entries(response.headers).map(([name, value]): [string, string] => [
          name,
          [value].flat().join(', '),
        ]);
        return {
          response: {
            statusCode,
            headers: Object.fromEntries(received),
            body: Readable.from([bytes ?? Buffer.alloc(0)]),
          },
        };
      } catch (error) {
        if (error instanceof StoreError || abortSignal?.aborted === true) throw error;
        // AWS's client retries a request whose error has this property.
        throw Object.assign(unreachable(subjectOf(sent), error), { $retryable: {} });
      }
    },
  };
}

const subjectOf = ({ method }: HttpRequest): string =>
  method === 'POST' ? 'The security token service' : 'The object store';

function urlOf({ protocol, hostname, port, path, query = {} }: HttpRequest): string {
  const pairs = Object.entries(query).map(([name, value]) =>
    [name, String(value ?? '')].map(encodeURIComponent).join('='),
  );
  const origin = `${protocol}//${hostname}${port === undefined ? '' : `:${port}`}`;
  return `${origin}${path}${pairs.length === 0 ? '' : `?${pairs.join('&')}`}`;
}
