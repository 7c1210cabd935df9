import { argv } from 'node:process';
import { fileURLToPath } from 'node:url';
import type { Mutant } from './mutant.ts';
import { mutants } from './mutants.ts';

const header = ['Mistake', 'In', 'Checks that kill it', 'World'];

/**
 * The table of docs/testing.md: one row for each mutant, with padded columns as prettier has them.
 */
export function mutantTable(): string {
  const rows = [header, ...Object.entries<Mutant>(mutants).map(rowOf)];
  const widths = header.map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |\n`;
  const padded = rows.map((row) =>
    line(row.map((cell, column) => cell.padEnd(widths[column] ?? 0))),
  );
  const [first = '', ...others] = padded;
  return [first, line(widths.map((width) => '-'.repeat(width))), ...others].join('');
}

function rowOf([name, mutant]: readonly [string, Mutant]): readonly string[] {
  const { file, rule } = mutant;
  return [name, `\`${file}\``, checksOf(rule), worldOf(mutant)];
}

/** A pattern of checks lists them, with `|` between them. */
const checksOf = (rule: string | RegExp): string =>
  typeof rule === 'string' ? rule : rule.source.replaceAll('^', '').split('|').join('; ');

function worldOf({
  world = 'shared',
  shards,
  busy,
  retention,
  pools,
  tenant,
  messages,
  faults = 'all',
  focus,
}: Mutant): string {
  return [
    world,
    ...(shards === undefined ? [] : [`${shards} shards`]),
    ...(busy === true ? ['one of them busy'] : []),
    ...(retention === true ? ['retention'] : []),
    ...(pools === true ? ['pools'] : []),
    ...(tenant === true ? ['tenant'] : []),
    ...(focus === undefined ? [] : [`focus on ${focus}`]),
    ...(messages === true ? ['messages'] : []),
    faults === 'none' ? 'no faults' : faults === 'all' ? 'all faults' : `faults ${faults}`,
  ].join(', ');
}

if (argv[1] === fileURLToPath(import.meta.url)) process.stdout.write(mutantTable());
