import { readdir, stat, open } from 'node:fs/promises';
import { join, resolve, relative } from 'node:path';
import { GitFailure, type Git, repositoryAt, closestRepository, resolved } from './git.ts';
import { constants } from 'node:fs';
import { HttpError } from '../router.ts';

/** The tree without files, in the object format of the repository. */
const emptyTree = async (git: Git, repository: string): Promise<string> =>
  (await git.output(repository, 'hash-object', '-t', 'tree', '/dev/null')).toString().trim();

/**
 * Commit that changes are shown against: the one that `ref` names, or without `ref` the one that
 * shows best what has been done here, as the server of the protocol chooses it. Throws 400 for a
 * name that does not exist; HEAD without a commit is the empty tree.
 */
export async function baseOf(git: Git, repository: string, ref?: string): Promise<string> {
  if (ref === undefined)
    return (await git.line(repository, 'rev-list', '--all', '--max-count=1')) === undefined
      ? emptyTree(git, repository)
      : displayBase(git, repository);
  // A name that begins with a dash would be an option.
  const named = ref.startsWith('-') ? undefined : await git.id(repository, `${ref}^{commit}`);
  if (named !== undefined) return named;
  if (ref === 'HEAD') return emptyTree(git, repository);
  throw new GitFailure(['rev-parse', '--verify', `${ref}^{commit}`]);
}

/**
 * In this order:
 * - the upstream of the current branch, unless all of the branch is pushed and no tracked file
 *   differs: the comparison would be empty, and would hide the work on the branch;
 * - the commit where HEAD left the default branch of the remote, else the default branch;
 * - without a remote, the local main or master where HEAD left it;
 * - HEAD.
 */
async function displayBase(git: Git, repository: string): Promise<string> {
  const head = await git.id(repository, 'HEAD');
  const named = await git.line(repository, 'rev-parse', '--abbrev-ref', 'HEAD');
  const branch = named === 'HEAD' ? undefined : named;
  const upstream = branch && (await git.id(repository, `refs/remotes/origin/${branch}`));
  if (upstream !== undefined && upstream !== '')
    if (upstream !== head || (await hasTrackedChanges(git, repository))) return upstream;
  const remote = await remoteDefault(git, repository);
  const base =
    remote === undefined
      ? await localFork(git, repository, branch)
      : ((await git.line(repository, 'merge-base', 'HEAD', remote)) ??
        (await git.id(repository, remote)));
  return base ?? head ?? emptyTree(git, repository);
}

/**
 * Full name of the default branch of the remote. A remote that does not name it is not asked,
 * unlike at the server of the protocol, because a read must not wait for a host: then a branch
 * main or master counts.
 */
async function remoteDefault(git: Git, repository: string): Promise<string | undefined> {
  const known = await git.line(repository, 'symbolic-ref', '--quiet', 'refs/remotes/origin/HEAD');
  for (const name of [known, 'refs/remotes/origin/main', 'refs/remotes/origin/master'])
    if (name !== undefined && (await git.id(repository, name)) !== undefined) return name;
  return undefined;
}

/** Tip of the local default branch, where HEAD is another branch that contains the tip. */
async function localFork(
  git: Git,
  repository: string,
  branch: string | undefined,
): Promise<string | undefined> {
  for (const name of ['main', 'master']) {
    const tip = await git.id(repository, `refs/heads/${name}`);
    if (tip === undefined) continue;
    if (name === branch) return undefined;
    const fork = await git.line(repository, 'merge-base', 'HEAD', tip);
    return fork === tip ? tip : undefined;
  }
  return undefined;
}

/** True also when git can not say. */
async function hasTrackedChanges(git: Git, repository: string): Promise<boolean> {
  const args = ['--porcelain', '--untracked-files=no', '--ignore-submodules=dirty'];
  const changed = await git.output(repository, 'status', ...args).catch(() => undefined);
  return changed?.length !== 0;
}

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

/** Both versions of a file; null where there is no repository. */
interface GitDiff {
  readonly modified: string | null;
  readonly original: string | null;
}

export const maxDiffBytes = 1024 * 1024;

const none: GitDiff = { modified: null, original: null };

/**
 * A file in the working tree, and at the base that `changesBelow` compares with. Throws 400 for a
 * file that is neither, or is too large. A file that is no UTF-8 text is empty.
 */
export async function fileDiff(git: Git, path: string, ref: string | undefined): Promise<GitDiff> {
  const file = await resolved(path);
  const found = await stat(file).catch(() => undefined);
  if (found !== undefined && !found.isFile()) throw new HttpError(400, `Not a file: ${file}`);
  if (found !== undefined && found.size > maxDiffBytes) throw tooLarge(found.size);
  const repository = await closestRepository(git, file);
  if (repository === undefined) {
    if (found === undefined) throw new HttpError(400, `File does not exist: ${file}`);
    return none;
  }
  const base = await baseOf(git, repository, ref);
  const original = await versionAt(git, repository, base, file);
  if (found === undefined && original === undefined)
    throw new HttpError(400, `File does not exist: ${file}`);
  const modified = found === undefined ? '' : await textOf(file);
  return { modified: lines(modified), original: lines(original?.toString('utf8') ?? '') };
}

/** A file as one commit changed it. Both versions are from the history. */
export async function commitDiff(git: Git, path: string, commit: string): Promise<GitDiff> {
  const file = await resolved(path);
  const repository = await closestRepository(git, file);
  if (repository === undefined) return none;
  const { id, parent } = await commitOf(git, repository, commit);
  const at = async (version: string) =>
    (await versionAt(git, repository, version, file))?.toString('utf8').trim() ?? '';
  return { modified: await at(id), original: await at(parent) };
}

/**
 * Content of a file in a commit or a tree, without the filters of the repository; undefined where
 * there is no such file.
 */
async function versionAt(
  git: Git,
  repository: string,
  version: string,
  file: string,
): Promise<Buffer | undefined> {
  const name = `${version}:${relative(repository, file)}`;
  if ((await git.line(repository, 'cat-file', '-t', name)) !== 'blob') return undefined;
  const bytes = Number(await git.line(repository, 'cat-file', '-s', name));
  if (!(bytes <= maxDiffBytes)) throw tooLarge(bytes);
  return git.output(repository, 'cat-file', 'blob', name);
}

const tooLarge = (bytes: number): HttpError =>
  new HttpError(400, `File too large for git diff: ${bytes} bytes (max: ${maxDiffBytes} bytes)`);

/** Empty where the file can not be read, or is no UTF-8. A pipe in its place is not waited for. */
async function textOf(path: string): Promise<string> {
  try {
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const buffer = Buffer.alloc(maxDiffBytes);
    const { bytesRead } = await file.read(buffer, 0, maxDiffBytes, 0);
    return new TextDecoder('utf-8', { fatal: true }).decode(buffer.subarray(0, bytesRead));
  } catch {
    return '';
  }
}

/** The lines of a text without the end of the last one, as the server of the protocol has them. */
function lines(text: string): string {
  // eslint-disable-next-line no-control-regex -- Python ends lines at these as well
  const parts = text.split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/);
  return (parts.at(-1) === '' ? parts.slice(0, -1) : parts).join('\n');
}
