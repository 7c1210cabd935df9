import type { GitBranch, Refs } from '@conversation-operator/git/ref-list';
import type { GitSearch } from './directory.ts';

/**
 * Branches whose name contains the query: the one of exactly this name first, then the default
 * branch.
 */
export function branchesMatching(
  { branches, defaultBranch }: Refs,
  { query, limit }: Pick<GitSearch, 'query' | 'limit'>,
): readonly GitBranch[] {
  const wanted = query.trim().toLowerCase();
  const found = branches.filter(({ name }) => name.toLowerCase().includes(wanted));
  const first = found.filter(({ name }) => name.toLowerCase() === wanted);
  const second = found.filter(({ name }) => name === defaultBranch);
  return [...new Set([...first, ...second, ...found])].slice(0, limit);
}
