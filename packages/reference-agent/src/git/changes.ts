import { readdir, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { baseOf, emptyTree } from './base.ts';
import { GitFailure, type Git } from './git.ts';
import { repositoryAt } from './repository.ts';

export interface GitChange {
  readonly status: 'ADDED' | 'DELETED' | 'UPDATED';
  /** Relative to the folder that was asked for. Bytes that are no UTF-8 are replaced. */
  readonly path: string;
}

/** Maximum repositories below a folder that are examined. */
const maxNested = 50;

/**
 * A rename is a deletion and an addition. Neither programs of the repository nor the settings of a
 * submodule count.
 */
const nameStatus = [
  ...['diff', '--name-status', '-z', '--no-renames', '--no-ext-diff', '--no-textconv'],
  '--ignore-submodules=dirty',
];

/**
 * Changes of a folder against the base of its repository, with untracked files, and those of the
 * repositories directly below, in the order of the paths. A folder without any repository has none.
 */
export async function changesBelow(
  git: Git,
  path: string,
  ref: string | undefined,
): Promise<readonly GitChange[]> {
  const folder = resolve(path);
  const nested = await repositoriesIn(folder);
  const own = ((await changesIn(git, folder, ref)) ?? []).filter(
    (change) => !nested.some((name) => change.path === name || change.path.startsWith(`${name}/`)),
  );
  const changes = [...own];
  for (const name of nested) {
    const below = await changesIn(git, join(folder, name), ref).catch((error: unknown) => {
      // The folder is no sound repository, or does not have the ref.
      if (error instanceof GitFailure) return undefined;
      throw error;
    });
    changes.push(...(below ?? []).map((change) => ({ ...change, path: `${name}/${change.path}` })));
  }
  return changes.sort((a, b) => (a.path < b.path ? -1 : Number(a.path > b.path)));
}

/** Files that a commit changed against its first parent; none where there is no repository. */
export async function changesOf(
  git: Git,
  folder: string,
  commit: string,
): Promise<readonly GitChange[]> {
  const repository = await repositoryAt(git, folder);
  if (repository === undefined) return [];
  const { id, parent } = await commitOf(git, repository, commit);
  return parse(await git.output(repository, ...nameStatus, parent, id, '--'));
}

/** A commit and its first parent, or the empty tree. Throws 400 for an unknown one. */
export async function commitOf(
  git: Git,
  repository: string,
  commit: string,
): Promise<{ readonly id: string; readonly parent: string }> {
  const id = await git.id(repository, `${commit}^{commit}`);
  if (id === undefined) throw new GitFailure(['rev-parse', '--verify', `${commit}^{commit}`]);
  return { id, parent: (await git.id(repository, `${id}^`)) ?? (await emptyTree(git, repository)) };
}

async function changesIn(
  git: Git,
  folder: string,
  ref: string | undefined,
): Promise<readonly GitChange[] | undefined> {
  const repository = await repositoryAt(git, folder);
  if (repository === undefined) return undefined;
  const base = await baseOf(git, repository, ref);
  const tracked = parse(await git.output(repository, ...nameStatus, '--relative', base, '--'));
  const untracked = await git
    .output(repository, 'ls-files', '--others', '--exclude-standard', '-z')
    .catch((error: unknown) => {
      if (error instanceof GitFailure) return Buffer.alloc(0);
      throw error;
    });
  const added = namesIn(untracked).map((name) => ({
    status: 'ADDED' as const,
    // Git prints a repository below as a folder.
    path: name.replace(/\/$/, ''),
  }));
  // Git prints a file with a conflict twice.
  return [...new Map([...added, ...tracked].map((change) => [change.path, change])).values()];
}

/** Folders directly below that have an entry `.git`. Hidden folders do not count. */
async function repositoriesIn(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const found: string[] = [];
  for (const entry of entries) {
    if (found.length === maxNested) break;
    if (entry.name.startsWith('.') || !(entry.isDirectory() || entry.isSymbolicLink())) continue;
    const inside = await stat(join(folder, entry.name, '.git')).catch(() => undefined);
    if (inside !== undefined) found.push(entry.name);
  }
  return found.sort();
}

const namesIn = (output: Buffer): readonly string[] =>
  output
    .toString('utf8')
    .split('\0')
    .filter((name) => name !== '');

/** Returns the changes in the output of `nameStatus`: a status and a path in turn. */
function parse(output: Buffer): readonly GitChange[] {
  const fields = output.toString('utf8').split('\0');
  const changes: GitChange[] = [];
  for (let index = 0; index + 1 < fields.length; index += 2) {
    const [status, path] = [fields[index] ?? '', fields[index + 1] ?? ''];
    changes.push({ status: statuses[status[0] ?? ''] ?? 'UPDATED', path });
  }
  return changes;
}

/** Other letters are kinds of an update: of the type, or with a conflict. */
const statuses: Readonly<Record<string, GitChange['status']>> = { A: 'ADDED', D: 'DELETED' };
