import { ProblemError } from './problem-error.ts';

/** The problem is the same for a missing object and for an object of another owner. */
export const notFound = (
  what:
    | 'conversation'
    | 'sandbox'
    | 'sandbox spec'
    | 'parent conversation'
    | 'API key'
    | 'page script'
    | 'file'
    | 'approval'
    | 'secret',
): ProblemError => new ProblemError('not-found', `There is no such ${what}.`);

export const unavailable = (retryAfterMs = 1000, cause?: unknown): ProblemError =>
  new ProblemError('unavailable', 'The service can not answer at the moment. Try again.', {
    retryAfterSeconds: Math.max(1, Math.ceil(retryAfterMs / 1000)),
    cause,
  });

export const onlyAdmin = (what: string): ProblemError =>
  new ProblemError('forbidden', `Only a key with the role admin can ${what}.`);
