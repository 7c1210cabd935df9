import { StoreError, type StoreErrorCode } from './object-store.ts';
import type { Credentials } from './s3-credentials.ts';

/** An error of AWS's client as a `StoreError`, and the remedy to try before a retry. */
export interface S3Failure {
  /** Each remedy is tried once per call; with `fail`, there is none. */
  readonly next: 'fail' | 'refresh-credentials' | 'add-checksums';
  readonly error: StoreError;
}

const maxMessageLength = 200;

const throttled: ReadonlySet<string> = new Set([
  ...['SlowDown', 'Throttling', 'ThrottlingException', 'RequestLimitExceeded'],
  ...['TooManyRequests', 'BandwidthLimitExceeded', 'RequestThrottled', 'SlowDownRead'],
  'SlowDownWrite',
]);
/**
 * Error codes after which new credentials may help. AWS sends some with status 400. The Versity
 * gateway sends status 404 and its own code for an unknown access key. A signature does not match
 * if one file of a mounted Secret was read before a change, and another one after it.
 */
const rejectedCredentials: ReadonlySet<string> = new Set([
  ...['ExpiredToken', 'InvalidToken', 'TokenRefreshRequired', 'InvalidAccessKeyId'],
  ...['ExpiredTokenException', 'XAdminUserNotFound', 'SignatureDoesNotMatch'],
]);
/** Codes of failures that end by themselves, such as a broken transfer or a conflicting request. */
const passing: ReadonlySet<string> = new Set([
  ...['RequestTimeout', 'IncompleteBody', 'BadDigest', 'XAmzContentSHA256Mismatch'],
  ...['OperationAborted', 'ConditionalRequestConflict', 'InternalError'],
  ...['XMinioStorageFull', 'InsufficientStorage', 'IDPCommunicationErrorException'],
]);
const elsewhere: ReadonlySet<string> = new Set([
  ...['AuthorizationHeaderMalformed', 'IllegalLocationConstraintException'],
]);

function codeOf(status: number, code: string): StoreErrorCode {
  if (elsewhere.has(code)) return 'invalid';
  if (throttled.has(code) || status === 429) return 'throttled';
  const isDenied = status === 401 || status === 403 || code === 'RequestTimeTooSkewed';
  if (rejectedCredentials.has(code) || isDenied) return 'denied';
  if (status === 404) return 'missing';
  if (status === 501) return 'invalid';
  const isPassing = passing.has(code) || status >= 500 || status === 408 || status === 409;
  return isPassing ? 'unavailable' : 'invalid';
}

/** Converts an error. Removes credentials from the message: a hostile server may repeat them. */
export function s3FailureOf(error: unknown, using: Credentials): S3Failure {
  if (error instanceof StoreError) return { next: 'fail', error };
  const { status, code, message, region } = answerOf(error);
  if (status === undefined) {
    const text = 'The client of the object store has failed';
    return { next: 'fail', error: new StoreError('invalid', text, { cause: error }) };
  }
  const { accessKeyId, secretAccessKey, sessionToken = '' } = using;
  const text = textOf('The object store', { status, code, message }, [
    ...[secretAccessKey, sessionToken, accessKeyId],
  ]);
  const isRedirect = status < 400 || elsewhere.has(code);
  const hasRegion = isRedirect && region !== undefined && /^[A-Za-z0-9-]{1,64}$/.test(region);
  const wantsChecksum = status === 400 && /content-md5|x-amz-checksum/i.test(`${code} ${message}`);
  return {
    next: rejectedCredentials.has(code)
      ? 'refresh-credentials'
      : wantsChecksum
        ? 'add-checksums'
        : 'fail',
    error: new StoreError(
      codeOf(status, code),
      hasRegion ? `${text}; the bucket is in the region ${region}` : text,
    ),
  };
}

export function credentialFailureOf(error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const { status, code, message } = answerOf(error);
  if (status === undefined)
    return new StoreError(
      'denied',
      'There are no credentials of the object store: the variables and files of AWS, a web identity, the service of the container and that of the instance give none',
      { cause: error },
    );
  return new StoreError(
    codeOf(status, code),
    textOf('The security token service', { status, code, message }, []),
  );
}

interface Answer {
  /** Undefined: the error is not a server's response. */
  readonly status: number | undefined;
  /** Error code of the body; empty if the body has none. */
  readonly code: string;
  readonly message: string;
  readonly region?: string | undefined;
}

export const statusOf = (error: unknown): number | undefined => answerOf(error).status;

function answerOf(error: unknown): Answer {
  const { $metadata, $fault, $response, name, message, Region } = error as {
    readonly $metadata?: { readonly httpStatusCode?: number };
    readonly $fault?: unknown;
    readonly $response?: { readonly headers?: Readonly<Record<string, string>> };
    readonly name?: string;
    readonly message?: string;
    readonly Region?: unknown;
  };
  const region = $response?.headers?.['x-amz-bucket-region'] ?? Region;
  // For a body that is not an S3 error, `name` is the name of a parser's error.
  const isCode = $fault !== undefined && /^[\w.-]{1,64}$/.test(name ?? '') && name !== 'Unknown';
  return {
    status: $metadata?.httpStatusCode,
    code: isCode ? (name ?? '') : '',
    message: isCode && message !== 'UnknownError' ? (message ?? '') : '',
    region: typeof region === 'string' ? region.trim() : undefined,
  };
}

function textOf(
  subject: string,
  { status, code, message }: Answer,
  secrets: readonly string[],
): string {
  const detail = [code, oneLine(withoutSecrets(message, secrets))].filter((text) => text !== '');
  return `${subject} answers ${status}${detail.length === 0 ? '' : ` ${detail.join(': ')}`}`;
}

/** Returns the text on one line, truncated to `maxMessageLength` characters. */
function oneLine(text: string): string {
  const line = text
    .slice(0, 4 * maxMessageLength)
    .replaceAll(/[\p{C}\s]+/gu, ' ')
    .trim();
  return line.length > maxMessageLength ? `${line.slice(0, maxMessageLength)}…` : line;
}

/** Minimum length of a secret to remove. Removing shorter texts would damage ordinary words. */
const minSecretLength = 4;
/** Matches a token of a service account. */
const jwt = /eyJ[\w-]+\.[\w-]+\.[\w-]*/g;

const withoutSecrets = (text: string, secrets: readonly string[]): string =>
  secrets
    .filter(({ length }) => length >= minSecretLength)
    .reduce((rest, secret) => rest.replaceAll(secret, '***'), text.replaceAll(jwt, '***'));
