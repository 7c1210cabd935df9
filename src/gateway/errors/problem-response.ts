import { problems, type ProblemCode } from './catalogue.ts';
import { z } from 'zod';
import {
  ApiError,
  TransportError,
  isConflict,
  isInvalid,
} from '@conversation-operator/kube/errors';
import { Refusal } from '@conversation-operator/http/refusal';

import { ProblemError } from './problem-error.ts';
import { unavailable } from './common-problems.ts';

export const problemSchema = z.object({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string(),
  code: z.enum(Object.keys(problems) as [ProblemCode, ...ProblemCode[]]),
  request_id: z.string(),
  limit: z.int().optional(),
  current: z.int().optional(),
  errors: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
});

/**
 * The Content-Type of problems (RFC 9457). Most recipients ignore the parameter `alt`. The npm
 * package `@openhands/typescript-client`, which the official web UI contains, parses a body as JSON
 * only if its type contains `application/json`. Otherwise it shows the raw text.
 */
export const problemType = 'application/problem+json; alt="application/json"';

export const problemBody = (
  problem: ProblemError,
  requestId: string,
): z.output<typeof problemSchema> => ({
  type: `tag:conversation-operator.dev,2026:${problem.code}`,
  title: problems[problem.code].title,
  status: problem.status,
  detail: problem.message,
  code: problem.code,
  request_id: requestId,
  ...problem.usage,
  ...(problem.errors === undefined ? {} : { errors: [...problem.errors] }),
});

const internal = (cause: unknown): ProblemError =>
  new ProblemError('internal', 'Something went wrong on our side.', { cause });

const apiProblem = (error: ApiError): ProblemError => {
  // 401: the gateway's ServiceAccount was deleted and created again. Another replica can answer, or
  // this one once it has a new token.
  if (error.status >= 500 || error.status === 429 || error.status === 401)
    return unavailable(error.retryAfterMs, error);
  // 403: RBAC, a ResourceQuota or an admission policy refuses the request. The client is not at
  // fault, and an administrator may fix the cause while the gateway runs.
  if (error.status === 403)
    return new ProblemError(
      'refused-by-cluster',
      'The cluster does not allow this now. The log of the gateway has the reason.',
      { cause: error, retryAfterSeconds: 30 },
    );
  if (error.status === 404)
    return new ProblemError('not-found', 'The object does not exist any more.', { cause: error });
  if (error.status === 409 || isConflict(error))
    return new ProblemError(
      'conflict',
      'The object was changed at the same time. Read it and try again.',
      { cause: error },
    );
  if (isInvalid(error))
    return new ProblemError('invalid-request', 'The request was refused as not valid.', {
      cause: error,
      errors: [],
    });
  return internal(error);
};

export function toProblem(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  if (error instanceof Refusal)
    return new ProblemError(error.code, error.message, {
      headers: error.headers,
      cause: error.cause,
    });
  if (error instanceof ApiError) return apiProblem(error);
  if (error instanceof TransportError) return unavailable(undefined, error);
  // Express throws these errors for bad percent-encoding.
  if (error instanceof Error && 'status' in error && error.status === 400)
    return new ProblemError('malformed-request', 'The request could not be read.', {
      cause: error,
    });
  return internal(error);
}
