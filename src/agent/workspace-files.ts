import { z } from 'zod';
import type { AgentCallOptions, AgentEndpoint } from './agent.ts';
import { AgentError, isAgentError } from './errors.ts';
import { OpenHandsApi } from './openhands-api.ts';
import { commandOutputSchema } from './wire.ts';
import { readFileSync } from 'node:fs';
import { shellCommand } from './shell-quote.ts';

interface FileList {
  /** Sorted paths relative to the folder. U+FFFD replaces bytes that are not UTF-8. */
  readonly names: readonly string[];
  readonly isTruncated: boolean;
}

/** Maximum bytes of each of the two lists that the shell program prints. */
const maxListBytes = 1024 * 1024;
const maxFiles = 10_000;
/** Maximum characters of the output, which has both lists in base64 with line breaks. */
const maxListOutput = 3 * maxListBytes;

const program = readFileSync(new URL('./workspace-files.sh', import.meta.url), 'utf8');
const visibleProgram = readFileSync(new URL('./visible-path.sh', import.meta.url), 'utf8');

/** Returns a command for /bin/sh whose output `fileListOf` reads: the files below a folder. */
export const listCommand = (folder: string, maxBytes = maxListBytes): string =>
  shellCommand(program, folder, maxBytes);

const separator = Buffer.from([0, 0]);

/** Returns the files in the output of `listCommand`, and no files for any other output. */
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

/** The names that end with a NUL, and the text after the last NUL. */
function namesIn(bytes: Buffer): readonly [names: readonly string[], rest: string] {
  const parts = bytes.toString('utf8').split('\0');
  const names = parts.slice(0, -1).map((name) => name.replace(/^\.\//, ''));
  return [names.filter((name) => name !== ''), parts.at(-1) ?? ''];
}

/**
 * Sorted names without folders. git lists a nested repository as if it were a file. In an order
 * with "/" before all other characters, a folder comes directly before its content.
 */
function withoutFolders(names: readonly string[]): readonly string[] {
  // `join` makes a flat string. `replaceAll` makes a rope, which is ten times slower to compare.
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
/** Maximum bytes of a list of changes or of commits. */
const maxGitBytes = 4 * 1024 * 1024;
/** Maximum bytes of the JSON of both versions of a file, which have up to 1 MiB each. */
const maxDiffBytes = 6 * 1024 * 1024;
const listTimeoutSeconds = 8;
/** Maximum bytes of an answer that has one word of output. */
const maxVisibleOutput = 64 * 1024;

export interface WorkspaceFilesOptions {
  /** Milliseconds that an answer may take, from the request to its last byte; 30 000 by default. */
  readonly timeoutMs?: number;
  /** Milliseconds to connect, 3000 by default. */
  readonly connectTimeoutMs?: number;
}

/**
 * Reads the files of sandboxes and their git changes through the agents. Paths are absolute. Throws
 * `AgentError`: `refused`, with a text for people, if a file or repository can not be shown, for
 * example a file that is too large.
 */
export class WorkspaceFiles {
  readonly #api: OpenHandsApi;

  constructor({ timeoutMs = 30_000, connectTimeoutMs = 3000 }: WorkspaceFilesOptions = {}) {
    this.#api = new OpenHandsApi({ timeoutMs, connectTimeoutMs });
  }

  /** The files below a folder, at most 10 000; empty if the folder does not exist. */
  async files(endpoint: AgentEndpoint, path: string, options: AgentCallOptions): Promise<FileList> {
    assertPath(path);
    const { body } = await this.#api
      .call(endpoint, options, {
        method: 'POST',
        path: '/api/bash/execute_bash_command',
        body: { command: listCommand(path), timeout: listTimeoutSeconds },
        // The command changes nothing, so the client may send it twice.
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

  /** A text file of at most 1 MiB; undefined if the file does not exist. */
  async file(
    endpoint: AgentEndpoint,
    path: string,
    options: AgentCallOptions,
  ): Promise<string | undefined> {
    const bytes = await this.bytes(endpoint, path, { ...options, maxBytes: maxFileBytes });
    return bytes === undefined ? undefined : textOf(bytes);
  }

  /** The content of a file, at most `maxBytes`; undefined if the file does not exist. */
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

  /**
   * Whether the file or folder at `path`, which may not exist, is in `folder` after all symbolic
   * links, and git does not ignore it.
   */
  async isVisibleIn(
    endpoint: AgentEndpoint,
    folder: string,
    path: string,
    options: AgentCallOptions,
  ): Promise<boolean> {
    assertPath(folder);
    assertPath(path);
    const { body } = await this.#api.call(endpoint, options, {
      method: 'POST',
      path: '/api/bash/execute_bash_command',
      body: { command: shellCommand(visibleProgram, folder, path), timeout: listTimeoutSeconds },
      repeatable: true,
      answer: commandOutputSchema,
      maxBodyBytes: maxVisibleOutput,
    });
    return body.exit_code === 0 && body.stdout?.trim() === 'visible';
  }

  /** The changes in a folder since the base of its repository; empty without a repository. */
  async changes(
    endpoint: AgentEndpoint,
    path: string,
    options: AgentCallOptions,
  ): Promise<readonly GitChange[]> {
    return this.#git(endpoint, path, options, '/api/git/changes', changesSchema, {});
  }

  /** Two versions of a file: now and at its repository's base, or after and before `commit`. */
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

/** Maximum characters of a path, as on Linux. An agent may name longer paths. */
export const maxPathLength = 4096;

/** Whether the path is valid in a request to the agent. */
export const isReadablePath = (path: string): boolean =>
  path.startsWith('/') && path.length <= maxPathLength && !path.includes('\0');

function assertPath(path: string): void {
  if (!isReadablePath(path))
    throw new AgentError(
      'refused',
      `A path must be absolute, without NUL, of at most ${maxPathLength} characters.`,
    );
}

/** An error `malformed` without a status means that the answer was too large. */
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
