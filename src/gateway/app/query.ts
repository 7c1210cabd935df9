/** Parameters that may be given more than once. Of any other the last one counts. */
const repeatable: ReadonlySet<string> = new Set(['id', 'ids']);

/** The query of a request target. Lists stay lists also when they have one element. */
export function queryOf(target: string): Readonly<Record<string, unknown>> {
  const start = target.indexOf('?');
  if (start < 0) return {};
  const parameters = new URLSearchParams(target.slice(start));
  return Object.fromEntries(
    [...new Set(parameters.keys())].map((name) => {
      const values = parameters.getAll(name);
      return [name, repeatable.has(name) ? values : values.at(-1)];
    }),
  );
}
