import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

/** The parts of a CustomResourceDefinition that tests read. */
export interface Definition {
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly group: string;
    readonly names: { readonly plural: string };
    readonly versions: readonly { readonly name: string }[];
  };
}

const folder = join(import.meta.dirname, '../../helm/conversation-operator/files/crds');

/** The definitions of the product's kinds, as its users install them. */
export const crds: readonly Definition[] = globSync('*.yaml', { cwd: folder })
  .toSorted()
  .map((file) => parse(readFileSync(join(folder, file), 'utf8')) as Definition);
