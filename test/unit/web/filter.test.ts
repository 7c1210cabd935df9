import { matcherOf, noFilter, searchTextOf, type Filter } from '../../../src/web/filter.ts';
import { running } from './facts.ts';

const facts = running({ title: 'Fix the Login', selected_repository: 'acme/app' });
const row = { facts, searchText: searchTextOf(facts) };

it.each<readonly [string, Partial<Filter>, boolean]>([
  ['no text', {}, true],
  ['parts of the title in any case and order', { text: 'LOGIN fix' }, true],
  ['the repository', { text: 'acme/' }, true],
  ['the branch', { text: 'main' }, true],
  ['a part that is not there', { text: 'fix logout' }, false],
  ['its repository', { repository: 'acme/app' }, true],
  ['another repository', { repository: 'acme/docs' }, false],
  ['its template', { template: 'default' }, true],
  ['another template', { template: 'large' }, false],
])('with %s, a filter of %o finds the conversation: %s', (_what, filter, isFound) => {
  expect(matcherOf({ ...noFilter, ...filter })(row)).toBe(isFound);
});
