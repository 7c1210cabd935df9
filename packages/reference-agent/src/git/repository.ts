import { realpath, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import type { Git } from './git.ts';

/** Returns the path without symbolic links, as far as it exists. */
export async function resolved(path: string): Promise<string> {
  const absolute = resolve(path);
  const real = await realpath(absolute).catch(() => undefined);
  if (real !== undefined) return real;
  const parent = dirname(absolute);
  return parent === absolute ? absolute : join(await resolved(parent), basename(absolute));
}

/** The folder without symbolic links, if git finds a repository there or above. */
export async function repositoryAt(git: Git, folder: string): Promise<string | undefined> {
  const real = await resolved(folder);
  const isFolder = (await stat(real).catch(() => undefined))?.isDirectory() === true;
  if (!isFolder) return undefined;
  return (await git.line(real, 'rev-parse', '--git-dir')) === undefined ? undefined : real;
}

/** The closest folder at or above the path that has an entry `.git`, if it is a repository. */
export async function closestRepository(git: Git, path: string): Promise<string | undefined> {
  for (let folder = path; ; folder = dirname(folder)) {
    if ((await stat(join(folder, '.git')).catch(() => undefined)) !== undefined)
      return repositoryAt(git, folder);
    if (dirname(folder) === folder) return undefined;
  }
}
