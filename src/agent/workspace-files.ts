import { z } from 'zod';
import type { AgentCallOptions, AgentEndpoint } from './agent.ts';
import { AgentError, isAgentError } from './errors.ts';
import { OpenHandsApi } from './openhands-api.ts';
import { commandOutputSchema } from './wire.ts';
import { readFileSync } from 'node:fs';
import { shellCommand } from './shell-quote.ts';

interface FileList {
  /** Paths relative to the folder, sorted; bytes that are no UTF-8 are replaced. */
  readonly names: readonly string[];
  readonly isTruncated: boolean;
}

/** Maximum bytes of each of the two lists that the program prints. */
const maxListBytes = 1024 * 1024;
const maxFiles = 10_000;
/** Maximum characters of the output: both lists as base64, in lines. */
const maxListOutput = 3 * maxListBytes;

const program = readFileSync(new URL('./workspace-files.sh', import.meta.url), 'utf8');

/** Returns a command for /bin/sh that prints the files below a folder for `fileListOf`. */
export const listCommand = (folder: string, maxBytes = maxListBytes): string =>
  shellCommand(program, folder, maxBytes);

const separator = Buffer.from([0, 0]);

/** Returns the files in the output of `listCommand`. Output that is no list has no files. */
export function fileListOf(output: string, max = maxFiles): FileList {
  const bytes = Buffer.from(output, 'base64');
  const at = bytes.indexOf(separator);
  if (at < 0) return { names: [], isTruncated: false };
  const [gone] = namesIn(bytes.subarray(0, at + 1));
  const [names, rest] = namesIn(bytes.subarray(at + separator.length));
  const isGone = new Set(gone);
  const known = [...new Set(names)].filter((name) => !isGone.has(name));
  const short = known.filter((name) => name.length <= maxPathLength);
  const there = withoutFolders(short).toSorted();
  return {
    names: there.slice(0, max),
    isTruncated: rest !== '' || short.length < known.length || there.length > max,
  };
}

/** Names that end with a NUL, and the text after the last NUL. */
function namesIn(bytes: Buffer): readonly [names: readonly string[], rest: string] {
  const parts = bytes.toString('utf8').split('\0');
  const names = parts.slice(0, -1).map((name) => name.replace(/^\.\//, ''));
  return [names.filter((name) => name !== ''), parts.at(-1) ?? ''];
}

/**
 * Names in order, without folders: git lists a repository in a repository as if it were a file. In
 * an order in which "/" comes first, a folder is directly before what is in it.
 */
function withoutFolders(names: readonly string[]): readonly string[] {
  // `join` makes a flat text; that of `replaceAll` is a tree, which is ten times slower to compare.
  const keyed = names.map((name) => name.split('/').join('\0')).sort();
  return keyed
    .filter(
      (key, index) => !key.endsWith('\0') && keyed[index + 1]?.startsWith(`${key}\0`) !== true,
    )
    .map((key) => key.split('\0').join('/'));
}

export const gitChangeSchema = z.object({
  status: z.enum(['MOVED', 'ADDED', 'DELETED', 'UPDATED']),
  path: z.string().describe('Relative to the folder that was asked for.'),
});
export type GitChange = z.output<typeof gitChangeSchema>;

const version = z.string().nullable();
export const gitDiffSchema = z.object({
  modified: version.describe('Empty for a file that is gone or no text.'),
  original: version.describe('Empty for a file that is new.'),
});
export type GitDiff = z.output<typeof gitDiffSchema>;

export const gitCommitsSchema = z.object({
  commits: z.array(
    z.object({
      sha: z.string(),
      short_sha: z.string(),
      subject: z.string(),
      author: z.string(),
      timestamp: z.string().describe('ISO 8601, with the offset of the author.'),
    }),
  ),
  has_more: z.boolean(),
});
export type GitCommits = z.output<typeof gitCommitsSchema>;

const changesSchema = z.array(gitChangeSchema);

export const maxFileBytes = 1024 * 1024;
/** Maximum bytes of a list of changes or commits. */
const maxGitBytes = 4 * 1024 * 1024;
/** Maximum bytes of the two versions of a file, each up to 1 MiB, as JSON. */
const maxDiffBytes = 6 * 1024 * 1024;
const listTimeoutSeconds = 8;

export interface WorkspaceFilesOptions {
  /** Milliseconds that an answer may take, from the request to its last byte; 30 000 by default. */
  readonly timeoutMs?: number;
  /** Milliseconds to connect, 3000 by default. */
  readonly connectTimeoutMs?: number;
}

/**
 * Reads the files of sandboxes and their git changes, from the agents that run in them. Paths are
 * absolute. Throws `AgentError`: `refused` with a text for people where a file or a repository can
 * not be shown, also because it is too large.
 */
export class WorkspaceFiles {
  readonly #api: OpenHandsApi;

  constructor({ timeoutMs = 30_000, connectTimeoutMs = 3000 }: WorkspaceFilesOptions = {}) {
    this.#api = new OpenHandsApi({ timeoutMs, connectTimeoutMs });
  }

  /** The files below a folder, at most 10 000; none where there is no such folder. */
  async files(endpoint: AgentEndpoint, path: string, options: AgentCallOptions): Promise<FileList> {
    assertPath(path);
    const { body } = await this.#api
      .call(endpoint, options, {
        method: 'POST',
        path: '/api/bash/execute_bash_command',
        body: { command: listCommand(path), timeout: listTimeoutSeconds },
        // The command changes nothing, so a retry is harmless.
        repeatable: true,
        answer: commandOutputSchema,
        maxBodyBytes: maxListOutput,
      })
      .catch((error: unknown) => {
        throw isAgentError(error, 'not-found') ? notListed(error) : error;
      });
    if (body.exit_code === 0) return fileListOf(body.stdout ?? '');
    if (body.exit_code == null || body.exit_code === -1)
      throw new AgentError('refused', 'The folder has too many files to list them in time.');
    throw notListed();
  }

  /** A text of at most 1 MiB; undefined where there is no such file. */
  async file(
    endpoint: AgentEndpoint,
    path: string,
    options: AgentCallOptions,
  ): Promise<string | undefined> {
    const bytes = await this.bytes(endpoint, path, { ...options, maxBytes: maxFileBytes });
    return bytes === undefined ? undefined : textOf(bytes);
  }

  /** A file as it is, of at most `maxBytes`; undefined where there is no such file. */
  async bytes(
    endpoint: AgentEndpoint,
    path: string,
    { maxBytes, ...options }: AgentCallOptions & { readonly maxBytes: number },
  ): Promise<Buffer | undefined> {
    assertPath(path);
    try {
      return await this.#api.bytes(endpoint, options, '/api/file/download', { path }, maxBytes);
    } catch (error) {
      if (isAgentError(error, 'not-found')) return undefined;
      throw refusedIfLarge(error, `The file has more than ${maxBytes} bytes.`);
    }
  }

  /** The changes of a folder against the base of its repository; none without a repository. */
  async changes(
    endpoint: AgentEndpoint,
    path: string,
    options: AgentCallOptions,
  ): Promise<readonly GitChange[]> {
    return this.#git(endpoint, path, options, '/api/git/changes', changesSchema, {});
  }

  /** A file and its version at the base, or both as one commit changed them. */
  async diff(
    endpoint: AgentEndpoint,
    path: string,
    { commit, ...options }: AgentCallOptions & { readonly commit?: string | undefined },
  ): Promise<GitDiff> {
    const query = commit === undefined ? {} : { commit };
    return this.#git(endpoint, path, options, '/api/git/diff', gitDiffSchema, query);
  }

  /** The latest commits of the repository, newest first. */
  async commits(
    endpoint: AgentEndpoint,
    path: string,
    { limit, ...options }: AgentCallOptions & { readonly limit: number },
  ): Promise<GitCommits> {
    return this.#git(endpoint, path, options, '/api/git/commits', gitCommitsSchema, { limit });
  }

  async commitChanges(
    endpoint: AgentEndpoint,
    path: string,
    { commit, ...options }: AgentCallOptions & { readonly commit: string },
  ): Promise<readonly GitChange[]> {
    const at = `/api/git/commits/${encodeURIComponent(commit)}/changes`;
    return this.#git(endpoint, path, options, at, changesSchema, {});
  }

  close(): Promise<void> {
    return this.#api.close();
  }

  async #git<T>(
    endpoint: AgentEndpoint,
    path: string,
    options: AgentCallOptions,
    at: string,
    answer: z.ZodType<T>,
    query: Readonly<Record<string, string | number>>,
  ): Promise<T> {
    assertPath(path);
    const maxBodyBytes = at === '/api/git/diff' ? maxDiffBytes : maxGitBytes;
    const details = { query: { ...query, path }, maxBodyBytes };
    try {
      return await this.#api.get(endpoint, options, at, answer, details);
    } catch (error) {
      if (isAgentError(error, 'not-found'))
        throw new AgentError('refused', 'The agent does not report what git says.', {
          cause: error,
        });
      throw refusedIfLarge(error, 'The repository has too many changes to show.');
    }
  }
}

const notListed = (cause?: AgentError): AgentError =>
  new AgentError('refused', 'The sandbox can not list its files.', { cause });

/** Maximum characters of a path; Linux opens no longer ones, but an agent may name some. */
export const maxPathLength = 4096;

/** Whether a path is one that the agent may be asked for. */
export const isReadablePath = (path: string): boolean =>
  path.startsWith('/') && path.length <= maxPathLength && !path.includes('\0');

function assertPath(path: string): void {
  if (!isReadablePath(path))
    throw new AgentError(
      'refused',
      `A path must be absolute, without NUL, of at most ${maxPathLength} characters.`,
    );
}

/** The client gives up an answer that is too large; the error then has no status. */
const refusedIfLarge = (error: unknown, text: string): unknown =>
  isAgentError(error, 'malformed') && error.status === undefined
    ? new AgentError('refused', text, { cause: error })
    : error;

function textOf(bytes: Buffer): string {
  const notText = (cause?: unknown) => new AgentError('refused', 'The file is no text.', { cause });
  if (bytes.includes(0)) throw notText();
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw notText(error);
  }
}
