import { constants } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { relative } from 'node:path';
import { HttpError } from '../http-error.ts';
import { baseOf, commitOf } from './changes.ts';
import { type Git, closestRepository, resolved } from './git.ts';

/** Both versions of a file; null where there is no repository. */
export interface GitDiff {
  readonly modified: string | null;
  readonly original: string | null;
}

/** Maximum bytes of each version of a file. */
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
