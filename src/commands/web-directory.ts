import { existsSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Options with the folder of the built pages: beside the bundled program, or in `dist` of a
 * checkout. None where the pages were not built.
 */
export function webDirectory(programFolder: string): { readonly webDirectory?: string } {
  const found = ['web', '../dist/web']
    .map((path) => join(programFolder, path))
    .find((path) => existsSync(join(path, 'app.js')));
  return found === undefined ? {} : { webDirectory: found };
}
