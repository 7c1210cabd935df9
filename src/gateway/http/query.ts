import { ProblemError } from '../errors/problem-error.ts';

/** Parameters that may be given more than once. The last value of every other parameter counts. */
const repeatable: ReadonlySet<string> = new Set(['id', 'ids']);

/**
 * Refuses a query that parsers repair in different ways: a percent sign without digits, or bytes
 * that are not UTF-8. Refuses NUL too.
 */
function refuseUnreadable(query: string): void {
  if (!query.includes('%')) return;
  try {
    if (!decodeURIComponent(query).includes('\0')) return;
  } catch {
    // The error is thrown below.
  }
  throw new ProblemError('malformed-request', 'The query is not percent-encoded UTF-8 text.');
}

/**
 * The query of a request target. Lists stay lists also when they have one element. Throws
 * `malformed-request`.
 */
export function queryOf(target: string): Readonly<Record<string, unknown>> {
  const start = target.indexOf('?');
  if (start < 0) return {};
  refuseUnreadable(target.slice(start));
  const parameters = new URLSearchParams(target.slice(start));
  return Object.fromEntries(
    [...new Set(parameters.keys())].map((name) => {
      const values = parameters.getAll(name);
      return [name, repeatable.has(name) ? values : values.at(-1)];
    }),
  );
}
