import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** A folder of the build: beside the bundled program, or in `dist` of a checkout. */
const builtFolder = (programFolder: string, name: string, file: string): string | undefined =>
  [name, `../dist/${name}`]
    .map((path) => join(programFolder, path))
    .find((path) => existsSync(join(path, file)));

/**
 * Options with the folders of the built pages, and of the official web UI where it is wanted. None
 * where the build has none.
 */
export function webDirectories(
  programFolder: string,
  { UI }: { readonly UI: boolean },
): { readonly webDirectory?: string; readonly uiDirectory?: string } {
  const webDirectory = builtFolder(programFolder, 'web', 'app.js');
  const uiDirectory = UI ? builtFolder(programFolder, 'ui', 'index.html') : undefined;
  return {
    ...(webDirectory === undefined ? {} : { webDirectory }),
    ...(uiDirectory === undefined ? {} : { uiDirectory }),
  };
}
