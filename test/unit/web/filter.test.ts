import {
  filterOf,
  matcherOf,
  noFilter,
  searchOf,
  searchTextOf,
  type Filter,
} from '../../../src/web/filter.ts';
import { running } from '../sentences/facts.ts';

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

it.each<readonly [Partial<Filter>, string]>([
  [{}, ''],
  [{ text: 'a&b #1' }, '?q=a%26b+%231'],
  [
    { text: 'x', group: 'needs-you', template: 'default', repository: 'acme/app' },
    '?q=x&group=needs-you&template=default&repository=acme%2Fapp',
  ],
])('has the filter %o in an address, and reads it from there', (fields, search) => {
  const filter = { ...noFilter, ...fields };
  expect(searchOf(filter)).toBe(search);
  expect(filterOf(search)).toEqual(filter);
});

it('takes no unknown group from an address', () => {
  expect(filterOf('?again=1&group=toString')).toEqual(noFilter);
});
