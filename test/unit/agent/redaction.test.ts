import { hidableSecrets } from '../../../src/agent/redaction.ts';

describe('the secrets that a question hides', () => {
  it.each<[string, readonly [string, string][], readonly [string, string][]]>([
    ['have their names', [['A', 'value-of-a']], [['A', 'value-of-a']]],
    ['are no short values', [['A', 'short']], []],
    [
      'have the first name of a value',
      [
        ['A', 'same-value'],
        ['B', 'same-value'],
      ],
      [['A', 'same-value']],
    ],
    [
      'are each line, by its number',
      [['KEY', 'first-line\nsecond-line\nx']],
      [
        ['KEY', 'first-line\nsecond-line\nx'],
        ['KEY, line 1', 'first-line'],
        ['KEY, line 2', 'second-line'],
      ],
    ],
    [
      'count short, empty and repeated lines for the number',
      [['KEY', 'x\r\n\r\nthird-line\nthird-line\n  fifth-line\n']],
      [
        ['KEY', 'x\r\n\r\nthird-line\nthird-line\n  fifth-line\n'],
        ['KEY, line 3', 'third-line'],
        ['KEY, line 5', 'fifth-line'],
      ],
    ],
    [
      'are the only line of a text as well',
      [['KEY', 'only-line\n']],
      [
        ['KEY', 'only-line\n'],
        ['KEY', 'only-line'],
      ],
    ],
  ])('%s', (_case, secrets, hidden) => {
    const found = hidableSecrets(secrets.map(([name, value]) => ({ name, value })));
    expect(found.map(({ name, value }) => [name, value])).toEqual(hidden);
  });
});
