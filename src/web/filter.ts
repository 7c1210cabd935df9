import { agentOf, branchOf, repositoryOf, templateOf, titleOf, type Facts } from './facts.ts';
import type { Group } from './groups.ts';

export interface Filter {
  readonly text: string;
  readonly group: Group | '';
  readonly template: string;
  readonly repository: string;
}

export const noFilter: Filter = { text: '', group: '', template: '', repository: '' };

export const isFiltered = ({ text, template, repository }: Filter): boolean =>
  text.trim() !== '' || template !== '' || repository !== '';

/** The lower-case text in which a search finds a conversation. */
export const searchTextOf = (facts: Facts): string =>
  [
    titleOf(facts),
    repositoryOf(facts),
    branchOf(facts),
    agentOf(facts),
    facts.conversation?.agent_kind,
    facts.conversation?.id,
    facts.conversation?.sandbox_id,
  ]
    .filter((text) => text !== undefined && text !== null)
    .join('\n')
    .toLowerCase();

/** One conversation, as a filter reads it. */
export interface Searchable {
  readonly searchText: string;
  readonly facts: Facts;
}

/** A predicate for everything but the group. Every part of the text has to be found. */
export function matcherOf({ text, template, repository }: Filter): (row: Searchable) => boolean {
  const parts = text.toLowerCase().split(/\s+/).filter(Boolean);
  return ({ searchText, facts }) =>
    parts.every((part) => searchText.includes(part)) &&
    (template === '' || templateOf(facts) === template) &&
    (repository === '' || repositoryOf(facts) === repository);
}
