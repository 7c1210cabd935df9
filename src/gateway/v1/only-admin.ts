import { ProblemError } from '../errors/problem-error.ts';

/** The problem of a request that needs a key with the role admin. */
export const onlyAdmin = (what: string): ProblemError =>
  new ProblemError('forbidden', `Only a key with the role admin can ${what}.`);
