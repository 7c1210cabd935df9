import { readFileSync } from 'node:fs';
import { upSettings } from '../../../src/config/up.ts';

const [, table = ''] = readFileSync('docs/local.md', 'utf8').split('## Settings\n');
const described = [...(table.split('\n## ')[0] ?? '').matchAll(/^\| ([^|]+)\|/gm)].flatMap(
  ([, cell = '']) => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name),
);

it('docs/local.md describes every setting of `up`, and no other', () => {
  expect(described.toSorted()).toEqual(upSettings.toSorted());
});
