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
    | 'secret'
    | 'share'
    | 'shared conversation'
    | 'handover',
): ProblemError => new ProblemError('not-found', `There is no such ${what}.`);

/** The problem of every change by the old owner while an object moves to a new one. */
export const moving = (): ProblemError =>
  new ProblemError(
    'wrong-state',
    'The conversation moves to another owner, who has accepted it. Nothing can be changed any more.',
  );

export const unavailable = (retryAfterMs = 1000, cause?: unknown): ProblemError =>
  new ProblemError('unavailable', 'The service can not answer at the moment. Try again.', {
    retryAfterSeconds: Math.max(1, Math.ceil(retryAfterMs / 1000)),
    cause,
  });

export const onlyAdmin = (what: string): ProblemError =>
  new ProblemError('forbidden', `Only a key with the role admin can ${what}.`);
