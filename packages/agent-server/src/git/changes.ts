import { readdir, stat, open } from 'node:fs/promises';
import { join, resolve, relative } from 'node:path';
import { GitFailure, type Git, repositoryAt, closestRepository, resolved } from './git.ts';
import { constants } from 'node:fs';
import { HttpError } from '../router.ts';

/** Returns the id of the empty tree, which depends on the object format of the repository. */
const emptyTree = async (git: Git, repository: string): Promise<string> =>
  (await git.output(repository, 'hash-object', '-t', 'tree', '/dev/null')).toString().trim();

/**
 * Returns the id of the commit to compare with: the commit of `ref`, or without `ref`, the result
 * of `displayBase`. If HEAD has no commit, the result is the empty tree. Throws HttpError 400 for
 * an unknown name.
 */
export async function baseOf(git: Git, repository: string, ref?: string): Promise<string> {
  if (ref === undefined)
    return (await git.line(repository, 'rev-list', '--all', '--max-count=1')) === undefined
      ? emptyTree(git, repository)
      : displayBase(git, repository);
  // Git would read a name that begins with a dash as an option.
  const named = ref.startsWith('-') ? undefined : await git.id(repository, `${ref}^{commit}`);
  if (named !== undefined) return named;
  if (ref === 'HEAD') return emptyTree(git, repository);
  throw new GitFailure(['rev-parse', '--verify', `${ref}^{commit}`]);
}

/**
 * Returns the base of a comparison as the OpenHands server chooses it, the first of:
 * - the upstream of the current branch, unless the whole branch is pushed and no tracked file
 *   differs: the comparison would be empty, and would hide the work on the branch;
 * - the merge base of HEAD and the remote's default branch, else the remote's default branch;
 * - without a remote, the local main or master if HEAD contains it;
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
 * Returns the ref of the remote's default branch: origin/HEAD, else origin/main or origin/master.
 * Unlike the OpenHands server, it never asks the remote: a read must not wait for a host.
 */
async function remoteDefault(git: Git, repository: string): Promise<string | undefined> {
  const known = await git.line(repository, 'symbolic-ref', '--quiet', 'refs/remotes/origin/HEAD');
  for (const name of [known, 'refs/remotes/origin/main', 'refs/remotes/origin/master'])
    if (name !== undefined && (await git.id(repository, name)) !== undefined) return name;
  return undefined;
}

/** Returns the tip of the local default branch if HEAD is another branch that contains the tip. */
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

/** Whether tracked files have changes. Also true if git fails. */
async function hasTrackedChanges(git: Git, repository: string): Promise<boolean> {
  const args = ['--porcelain', '--untracked-files=no', '--ignore-submodules=dirty'];
  const changed = await git.output(repository, 'status', ...args).catch(() => undefined);
  return changed?.length !== 0;
}

export interface GitChange {
  readonly status: 'ADDED' | 'DELETED' | 'UPDATED';
  /** Path relative to the requested folder. U+FFFD replaces bytes that are not UTF-8. */
  readonly path: string;
}

/** Maximum number of nested repositories that are examined. */
const maxNested = 50;

/**
 * Arguments of `git diff`. A rename appears as a deletion and an addition. Git runs no diff program
 * of the repository, and ignores the settings of submodules.
 */
const nameStatus = [
  ...['diff', '--name-status', '-z', '--no-renames', '--no-ext-diff', '--no-textconv'],
  '--ignore-submodules=dirty',
];

/**
 * Returns the changes of a folder against `baseOf`, with untracked files, and the changes of
 * repositories directly below, sorted by path. A folder without any repository has no changes.
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
      // The nested folder is no valid repository, or lacks the ref.
      if (error instanceof GitFailure) return undefined;
      throw error;
    });
    changes.push(...(below ?? []).map((change) => ({ ...change, path: `${name}/${change.path}` })));
  }
  return changes.sort((a, b) => (a.path < b.path ? -1 : Number(a.path > b.path)));
}

/** Returns the files that a commit changed against its first parent; none without a repository. */
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

/**
 * Returns the ids of a commit and of its first parent. The empty tree replaces a missing parent.
 * Throws HttpError 400 if the commit is unknown.
 */
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
    // Git prints a slash after the name of a nested repository.
    path: name.replace(/\/$/, ''),
  }));
  // Git prints a file with a conflict twice.
  return [...new Map([...added, ...tracked].map((change) => [change.path, change])).values()];
}

/** Returns the direct subfolders that contain `.git`, except hidden subfolders. */
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

/** Parses the output of `nameStatus`, which alternates a status and a path. */
function parse(output: Buffer): readonly GitChange[] {
  const fields = output.toString('utf8').split('\0');
  const changes: GitChange[] = [];
  for (let index = 0; index + 1 < fields.length; index += 2) {
    const [status, path] = [fields[index] ?? '', fields[index + 1] ?? ''];
    changes.push({ status: statuses[status[0] ?? ''] ?? 'UPDATED', path });
  }
  return changes;
}

/** Status letters of git. Others, such as those of a new file type or a conflict, mean UPDATED. */
const statuses: Readonly<Record<string, GitChange['status']>> = { A: 'ADDED', D: 'DELETED' };

/** Both versions of a file; null without a repository. */
interface GitDiff {
  readonly modified: string | null;
  readonly original: string | null;
}

export const maxDiffBytes = 1024 * 1024;

const none: GitDiff = { modified: null, original: null };

/**
 * Returns the texts of a file in the working tree and in the commit of `baseOf`. The first text is
 * empty if the file is not UTF-8. Throws HttpError 400 for a file absent in both, or too large.
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

/** Returns a file before and after one commit, both from the history. */
export async function commitDiff(git: Git, path: string, commit: string): Promise<GitDiff> {
  const file = await resolved(path);
  const repository = await closestRepository(git, file);
  if (repository === undefined) return none;
  const { id, parent } = await commitOf(git, repository, commit);
  const at = async (version: string) =>
    (await versionAt(git, repository, version, file))?.toString('utf8').trim() ?? '';
  return { modified: await at(id), original: await at(parent) };
}

/** Reads a file of a commit or tree, without filters of the repository; undefined if absent. */
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

/** Reads a file; empty if it is unreadable or not UTF-8. Does not wait for the writer of a pipe. */
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

/** Converts line ends to `\n`, and removes the one at the end, as the OpenHands server does. */
function lines(text: string): string {
  // eslint-disable-next-line no-control-regex -- Python ends lines at these as well
  const parts = text.split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/);
  return (parts.at(-1) === '' ? parts.slice(0, -1) : parts).join('\n');
}
