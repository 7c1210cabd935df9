import { ApiError, TransportError, isInvalid } from '../../kube/errors.ts';
import { ProblemError, unavailable } from './problem-error.ts';

/** What body-parser calls its errors; see its README, "Errors". */
const bodyProblem = (type: string): ProblemError | undefined => {
  switch (type) {
    case 'entity.parse.failed':
      return new ProblemError('malformed-json', 'The body is not valid JSON.');
    case 'entity.too.large':
      return new ProblemError('body-too-large', 'The body is larger than 1 MiB.');
    case 'charset.unsupported':
    case 'encoding.unsupported':
      return new ProblemError('unsupported-media-type', 'The body has to be UTF-8, and plain or compressed with gzip, deflate or br.');
    default:
      return undefined;
  }
};

const apiProblem = (error: ApiError): ProblemError => {
  // 401: the release, and with it our account, was taken away and is back; another gateway answers, or this one with its next token.
  if (error.status >= 500 || error.status === 429 || error.status === 401) return unavailable(error.retryAfterMs, error);
  // A right that was taken away, a ResourceQuota, a policy: nothing that the client did, and it may be mended while we run.
  if (error.status === 403)
    return new ProblemError('refused-by-cluster', 'The cluster does not allow this now. Its administrators find why in the log.', {
      cause: error,
      headers: { 'retry-after': '30' },
    });
  if (error.status === 404) return new ProblemError('not-found', 'It does not exist any more.', { cause: error });
  if (error.status === 409)
    return new ProblemError('conflict', 'It was changed at the same time. Read it and try again.', { cause: error });
  if (isInvalid(error)) return new ProblemError('invalid-request', 'The request was refused as not valid.', { cause: error, errors: [] });
  return new ProblemError('internal', 'Something went wrong on our side.', { cause: error });
};

/** The one way from anything thrown to what a client sees. */
export function toProblem(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  if (error instanceof ApiError) return apiProblem(error);
  if (error instanceof TransportError) return unavailable(undefined, error);
  if (error instanceof Error && 'status' in error && error.status !== undefined) {
    const known = 'type' in error && typeof error.type === 'string' ? bodyProblem(error.type) : undefined;
    if (known !== undefined) return known;
    // From express and what it is built on: bad percent-encoding, a body that was cut short.
    if (error.status === 400) return new ProblemError('malformed-request', 'The request could not be read.', { cause: error });
  }
  return new ProblemError('internal', 'Something went wrong on our side.', { cause: error });
}
