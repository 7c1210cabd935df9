import type { ProblemCode } from '../errors/catalogue.ts';
import { ProblemError } from '../errors/problem-error.ts';
import type { HostApiError, HostApiErrorCode } from '../git/host-api/host-api.ts';

const codes: Readonly<Record<HostApiErrorCode, ProblemCode>> = {
  exists: 'pull-request-exists',
  denied: 'git-host-denied',
  'not-found': 'git-host-denied',
  invalid: 'pull-request-invalid',
  busy: 'git-host-busy',
  unavailable: 'git-host-unavailable',
};
const retryAfterSeconds: Partial<Record<HostApiErrorCode, number>> = { busy: 60, unavailable: 5 };

/** The problem for an error of the API of a git host. Clients may read the message. */
export function problemOfHost(error: HostApiError): ProblemError {
  const wait = retryAfterSeconds[error.code];
  return new ProblemError(codes[error.code], error.message, {
    cause: error,
    ...(wait === undefined ? {} : { retryAfterSeconds: wait }),
  });
}
