import { readFileSync } from 'node:fs';
import { mutantTable } from '../../../simulation/mutants/mutant-table.ts';

it('docs/testing.md contains the table of all mutants, which mutant-table.ts prints', () => {
  const text = readFileSync('docs/testing.md', 'utf8');
  const table = text.split('\n').filter((line) => line.startsWith('| ') || line.startsWith('|-'));
  const first = table.findIndex((line) => line.startsWith('| Mistake'));
  expect(table.slice(first).join('\n')).toBe(mutantTable().trimEnd());
});
