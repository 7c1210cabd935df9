/**
 * Code of an error of the system (ENOENT, ECONNREFUSED, …) or of undici; undefined when the error
 * has none. An AggregateError of several addresses has the code of the first.
 */
export const systemCodeOf = (error: unknown): string | undefined =>
  typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string'
    ? error.code
    : undefined;
