import { spawn } from 'node:child_process';
import { kill, type ProcessGuard } from '../commands.ts';
import { HttpError } from '../router.ts';
import { realpath, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';

export interface GitOptions {
  readonly guard: Pick<ProcessGuard, 'add' | 'remove'>;
  readonly env: Readonly<Record<string, string>>;
  /** Maximum duration of all calls of one request; default 20 s. */
  readonly timeoutMs?: number;
  /** Maximum bytes of one output; default 8 MiB. */
  readonly maxOutputBytes?: number;
}

/** A git call with a nonzero exit code. The message contains no output of git. */
export class GitFailure extends HttpError {
  constructor(args: readonly string[]) {
    super(400, `Git command failed: git ${args.join(' ')}`);
  }
}

/**
 * Options that override the settings of the repository, which any command may have changed. Git
 * starts no monitor, hook, pager or editor, and takes paths literally.
 */
const settings = [
  ...['--no-pager', '--no-optional-locks', '--literal-pathspecs'],
  ...['-c', 'core.fsmonitor=false', '-c', 'core.hooksPath=/dev/null'],
];

/**
 * Returns the environment of git. Git fetches nothing: no protocol is allowed, and missing objects
 * of a partial clone are not loaded. Variables that point git to another repository are removed.
 */
const environmentOf = (env: Readonly<Record<string, string>>): Record<string, string> => ({
  ...Object.fromEntries(Object.entries(env).filter(([name]) => !/^GIT_(?!CONFIG_)/.test(name))),
  LC_ALL: 'C',
  GIT_ALLOW_PROTOCOL: 'none',
  GIT_NO_LAZY_FETCH: '1',
  GIT_TERMINAL_PROMPT: '0',
});

/**
 * Calls git for one request. The repository is not trusted: time and output are limited, and the
 * process group of git is killed at the end of each call. Git may run a filter of the repository,
 * with the environment of the sandbox's commands.
 */
export class Git {
  readonly #options: GitOptions;
  readonly #env: Readonly<Record<string, string>>;
  readonly #maxOutputBytes: number;
  readonly #endMs: number;

  constructor(options: GitOptions) {
    this.#options = options;
    this.#env = environmentOf(options.env);
    this.#maxOutputBytes = options.maxOutputBytes ?? 8 * 1024 * 1024;
    this.#endMs = performance.now() + (options.timeoutMs ?? 20_000);
  }

  /** Returns the output of git. Throws GitFailure, or HttpError 400 beyond a limit. */
  async output(folder: string, ...args: readonly string[]): Promise<Buffer> {
    const { code, output } = await this.#run(folder, args);
    if (code !== 0) throw new GitFailure(args);
    return output;
  }

  /** Returns the first line of the output; undefined if git fails or prints nothing. */
  async line(folder: string, ...args: readonly string[]): Promise<string | undefined> {
    const { code, output } = await this.#run(folder, args);
    const [line = ''] = code === 0 ? output.toString('utf8').trim().split('\n') : [];
    return line === '' ? undefined : line;
  }

  /** Returns the id of a commit or tree; undefined if the name is unknown. */
  id(folder: string, name: string): Promise<string | undefined> {
    return this.line(folder, 'rev-parse', '--verify', '--quiet', name);
  }

  async #run(
    folder: string,
    args: readonly string[],
  ): Promise<{ readonly code: number | null; readonly output: Buffer }> {
    const leftMs = this.#endMs - performance.now();
    if (leftMs <= 0) throw tooSlow(args);
    const child = spawn('git', [...settings, ...args], {
      cwd: folder,
      env: this.#env,
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const group = child.pid;
    if (group !== undefined) this.#options.guard.add(group);
    const end = () => {
      if (group !== undefined) kill(group, 'SIGKILL');
      child.stdout.destroy();
    };
    const chunks: Buffer[] = [];
    let bytes = 0;
    let timer: NodeJS.Timeout | undefined;
    try {
      const code = await new Promise<number | null>((resolve, reject) => {
        child.once('error', () => reject(new HttpError(400, 'Git could not be started.')));
        timer = setTimeout(() => reject(tooSlow(args)), leftMs);
        child.stdout.on('data', (chunk: Buffer) => {
          bytes += chunk.length;
          if (bytes <= this.#maxOutputBytes) chunks.push(chunk);
          else reject(new HttpError(400, `git ${args[0] ?? ''} prints too much.`));
        });
        child.once('close', resolve);
      });
      return { code, output: Buffer.concat(chunks) };
    } finally {
      clearTimeout(timer);
      end();
      if (group !== undefined) this.#options.guard.remove(group);
    }
  }
}

const tooSlow = (args: readonly string[]): HttpError =>
  new HttpError(400, `git ${args[0] ?? ''} took too long.`);

/** Resolves symbolic links in the part of the path that exists. */
export async function resolved(path: string): Promise<string> {
  const absolute = resolve(path);
  const real = await realpath(absolute).catch(() => undefined);
  if (real !== undefined) return real;
  const parent = dirname(absolute);
  return parent === absolute ? absolute : join(await resolved(parent), basename(absolute));
}

/** Returns the folder with symbolic links resolved; undefined outside of a repository. */
export async function repositoryAt(git: Git, folder: string): Promise<string | undefined> {
  const real = await resolved(folder);
  const isFolder = (await stat(real).catch(() => undefined))?.isDirectory() === true;
  if (!isFolder) return undefined;
  return (await git.line(real, 'rev-parse', '--git-dir')) === undefined ? undefined : real;
}

/** Returns the closest folder at or above the path that has `.git` and is a repository. */
export async function closestRepository(git: Git, path: string): Promise<string | undefined> {
  for (let folder = path; ; folder = dirname(folder)) {
    if ((await stat(join(folder, '.git')).catch(() => undefined)) !== undefined)
      return repositoryAt(git, folder);
    if (dirname(folder) === folder) return undefined;
  }
}
