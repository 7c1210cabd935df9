import { Refusal } from '../refusal.ts';

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
  throw new Refusal('malformed-request', 'The query is not percent-encoded UTF-8 text.');
}

/**
 * The query of a request target. Throws `malformed-request`.
 * @param repeatable Parameters that may be given more than once; their values are lists, also with
 * one element. The last value of every other parameter counts.
 */
export function queryOf(
  target: string,
  repeatable: ReadonlySet<string>,
): Readonly<Record<string, string | readonly string[] | undefined>> {
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
