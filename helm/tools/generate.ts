import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { manifests } from './manifests.ts';
import { valuesDocument } from './values-document.ts';

/**
 * Writes every file that follows from the chart. `make manifests`.
 */
const root = fileURLToPath(new URL('../../', import.meta.url));
const write = (path: string, text: string) => {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
};

for (const name of readdirSync(join(root, 'manifests')))
  if (name.endsWith('.yaml')) rmSync(join(root, 'manifests', name));
for (const [name, text] of await manifests()) write(join('manifests', name), text);
write('docs/values.md', await valuesDocument());
