import { readFileSync } from 'node:fs';
import { kubectl } from './cluster.ts';
import { release, type Facts } from './installation.ts';

export const components = ['operator', 'gateway'] as const;
export type Component = (typeof components)[number];
/** Accounts of which `test/e2e/rights` has a list. */
type Account = Component | 'relay';

/**
 * The rows of a table of `kubectl auth can-i --list`. The API server reads the roles of an account
 * in any order, which decides the order of rows and, where two roles name a resource, of its verbs.
 */
const normal = (table: string): readonly string[] =>
  table
    .trim()
    .split('\n')
    .map((line) =>
      line
        .trim()
        .replaceAll(/\s+/g, ' ')
        .replace(/(?<=\[)[a-z ]+(?=\]$)/, (verbs) => verbs.split(' ').toSorted().join(' ')),
    )
    .toSorted();

/** The rights that `test/e2e/rights` lists. */
export const committed = (name: Account | 'elsewhere'): readonly string[] =>
  normal(readFileSync(new URL(`../rights/${name}.txt`, import.meta.url), 'utf8'));

/** Rights of the service account of a process in a namespace, by the API server's judgement. */
export async function rightsOf(
  facts: Facts,
  component: Account,
  namespace: string,
): Promise<readonly string[]> {
  const account = `system:serviceaccount:${facts.namespace}:${release}-${component}`;
  return normal(await kubectl(`auth can-i --list --namespace ${namespace} --as=${account}`));
}
