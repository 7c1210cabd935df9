import { readFileSync } from 'node:fs';
import { upSettings } from '../../../src/config/up.ts';

const [, settings = ''] = readFileSync('docs/local.md', 'utf8').split('## Settings\n');
/** The names before the default and the meaning of each item. */
const described = [...(settings.split('\n## ')[0] ?? '').matchAll(/^- ([^(:]+)/gm)].flatMap(
  ([, names = '']) => [...names.matchAll(/`(\w+)`/g)].map(([, name]) => name),
);

it('docs/local.md describes every setting of `up`, and no other', () => {
  expect(described.toSorted()).toEqual(upSettings.toSorted());
});
