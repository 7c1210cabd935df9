import {
  agentOf,
  branchOf,
  repositoryOf,
  templateOf,
  titleOf,
  type Facts,
} from '../sentences/facts.ts';
import { groups, type Group } from '../sentences/groups.ts';

export interface Filter {
  readonly text: string;
  readonly group: Group | '';
  readonly template: string;
  readonly repository: string;
}

export const noFilter: Filter = { text: '', group: '', template: '', repository: '' };

export const isFiltered = ({ text, template, repository }: Filter): boolean =>
  text.trim() !== '' || template !== '' || repository !== '';

/** The filter as a URL query, such as `?q=login&group=working`; empty without a filter. */
export function searchOf({ text, group, template, repository }: Filter): string {
  const fields = Object.entries({ q: text.trim(), group, template, repository });
  const query = new URLSearchParams(fields.filter(([, value]) => value !== ''));
  return query.size === 0 ? '' : `?${query.toString()}`;
}

/** The filter in a URL query. An unknown group is ignored. */
export function filterOf(search: string): Filter {
  const query = new URLSearchParams(search);
  const named = query.get('group');
  return {
    text: query.get('q') ?? '',
    group: groups.find((group) => group === named) ?? '',
    template: query.get('template') ?? '',
    repository: query.get('repository') ?? '',
  };
}

/** The lower-case text that a search looks in. */
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

export interface Searchable {
  readonly searchText: string;
  readonly facts: Facts;
}

/** Tests all fields except the group. Every word of the text must be found. */
export function matcherOf({ text, template, repository }: Filter): (row: Searchable) => boolean {
  const parts = text.toLowerCase().split(/\s+/).filter(Boolean);
  return ({ searchText, facts }) =>
    parts.every((part) => searchText.includes(part)) &&
    (template === '' || templateOf(facts) === template) &&
    (repository === '' || repositoryOf(facts) === repository);
}
