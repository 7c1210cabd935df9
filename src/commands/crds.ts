import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { crdOf, definitions } from '../resources/crd.ts';

const notice = '# Generated from src/resources by `make crds`. Do not edit.\n';

/** YAML by file name. Each file has one CustomResourceDefinition. */
export const crdFiles = (): ReadonlyMap<string, string> =>
  new Map(
    definitions.map((definition) => [
      `${definition.plural}.yaml`,
      notice + stringify(crdOf(definition), { lineWidth: 0, aliasDuplicateObjects: false }),
    ]),
  );

/** Prints the CustomResourceDefinitions, or writes files into a folder. */
export function crds(options: { readonly output?: string | undefined }): void {
  const files = crdFiles();
  if (options.output === undefined) {
    process.stdout.write([...files.values()].join('---\n'));
    return;
  }
  mkdirSync(options.output, { recursive: true });
  for (const [name, text] of files) writeFileSync(join(options.output, name), text);
}
