import type { HttpAnswer } from './calls.ts';
import { StoreError, type StoreErrorCode } from './object-store.ts';
import { readXml, textAt } from './xml.ts';

/** Meaning of an answer of S3 other than a success for the call. */
export interface S3Failure {
  /** `retry`: the same request may succeed soon. The others are done once for each call. */
  readonly next: 'fail' | 'retry' | 'refresh-credentials' | 'correct-clock' | 'add-checksums';
  /** `Code` of S3's error, or empty where the body has none. */
  readonly s3Code: string;
  readonly error: StoreError;
}

/** Maximum size of the body of an error, in bytes. */
export const maxErrorBytes = 64 * 1024;
const maxMessageLength = 200;

const throttled: ReadonlySet<string> = new Set([
  ...['SlowDown', 'Throttling', 'ThrottlingException', 'RequestLimitExceeded'],
  ...['TooManyRequests', 'BandwidthLimitExceeded', 'RequestThrottled', 'SlowDownRead'],
  'SlowDownWrite',
]);
/**
 * Codes of credentials that another credential may replace. AWS answers some with 400, and the
 * Versity gateway an unknown access key with 404 and a code of its own.
 */
const rejectedCredentials: ReadonlySet<string> = new Set([
  ...['ExpiredToken', 'InvalidToken', 'TokenRefreshRequired', 'InvalidAccessKeyId'],
  ...['ExpiredTokenException', 'XAdminUserNotFound'],
]);
/** Failures of a transfer, and conflicts with another request, that end by themselves. */
const passing: ReadonlySet<string> = new Set([
  ...['RequestTimeout', 'IncompleteBody', 'BadDigest', 'XAmzContentSHA256Mismatch'],
  ...['OperationAborted', 'ConditionalRequestConflict', 'InternalError'],
]);
const isFull: ReadonlySet<string> = new Set(['XMinioStorageFull', 'InsufficientStorage']);

/**
 * Returns the failure that an answer means. The message contains the code and the message of S3's
 * error, without `secrets`, which a hostile server may repeat.
 */
export function s3FailureOf(answer: HttpAnswer, secrets: readonly string[]): S3Failure {
  const { code: s3Code, message, region: named } = errorOf(answer, secrets);
  const region = answer.header('x-amz-bucket-region') ?? named;
  const failure = (
    code: StoreErrorCode,
    next: S3Failure['next'] = 'fail',
    more = '',
  ): S3Failure => {
    const detail = [s3Code, message].filter((text) => text !== '').join(': ');
    const text = `The object store answers ${answer.status}${detail === '' ? '' : ` ${detail}`}${more}`;
    return { next, s3Code, error: new StoreError(code, text) };
  };

  const { status } = answer;
  const isRedirect =
    [301, 302, 307, 308].includes(status) ||
    s3Code === 'AuthorizationHeaderMalformed' ||
    s3Code === 'IllegalLocationConstraintException';
  if (isRedirect) {
    const hasRegion = region !== undefined && /^[A-Za-z0-9-]{1,64}$/.test(region);
    const more = hasRegion ? `; the bucket is in the region ${region}` : '';
    return failure('invalid', 'fail', more);
  }
  if (throttled.has(s3Code) || status === 429) return failure('throttled', 'retry');
  if (rejectedCredentials.has(s3Code)) return failure('denied', 'refresh-credentials');
  if (s3Code === 'RequestTimeTooSkewed') return failure('denied', 'correct-clock');
  if (status === 401 || status === 403) return failure('denied');
  if (status === 404) return failure('missing');
  if (isFull.has(s3Code) || status === 507) return failure('unavailable');
  if (status === 501) return failure('invalid');
  if (passing.has(s3Code) || status >= 500 || status === 408 || status === 409)
    return failure('unavailable', 'retry');
  const wantsChecksum =
    status === 400 && /content-md5|x-amz-checksum/i.test(`${s3Code} ${message}`);
  return failure('invalid', wantsChecksum ? 'add-checksums' : 'fail');
}

function errorOf({ body }: HttpAnswer, secrets: readonly string[]) {
  const root = body === undefined ? undefined : readXml(body.toString('utf8'));
  // STS has `ErrorResponse` around its error.
  const error =
    root?.name === 'ErrorResponse' ? root.children.find(({ name }) => name === 'Error') : root;
  if (error?.name !== 'Error') return { code: '', message: '', region: undefined };
  const code = textAt(error, 'Code')?.trim() ?? '';
  return {
    code: /^[\w.-]{1,64}$/.test(code) ? code : '',
    message: oneLine(withoutSecrets(textAt(error, 'Message') ?? '', secrets)),
    region: textAt(error, 'Region')?.trim(),
  };
}

/** The text on one line, of limited length. */
export function oneLine(text: string): string {
  const line = text
    .slice(0, 4 * maxMessageLength)
    .replaceAll(/[\p{C}\s]+/gu, ' ')
    .trim();
  return line.length > maxMessageLength ? `${line.slice(0, maxMessageLength)}…` : line;
}

/** Shorter texts are no secrets of any server, and parts of ordinary words. */
const minSecretLength = 4;

/** The text without the secrets. */
export const withoutSecrets = (text: string, secrets: readonly string[]): string =>
  secrets
    .filter(({ length }) => length >= minSecretLength)
    .reduce((rest, secret) => rest.replaceAll(secret, '***'), text);
