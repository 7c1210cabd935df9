import { createHash, randomBytes } from 'node:crypto';
import { accessSync, constants, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { CommandError, systemCodeOf } from '../command-error.ts';
import { runChild } from './child.ts';
import { whileLocked } from './lock.ts';
import { afterLine, pipBegins, pipFailure } from './pip.ts';
import type { Progress } from './progress.ts';
import { findPython, type Python } from './python.ts';

/** All three: of a package that is only needed by another one pip takes any version. */
const packages = ['openhands-agent-server', 'openhands-sdk', 'openhands-tools'];
/** Slow, but what is missing shows here and not in the first conversation. It also leaves the modules compiled. */
const check = 'import openhands.agent_server.api, openhands.tools.terminal, openhands.tools.file_editor, openhands.tools.task_tracker';

export const installSteps = 4;

export interface InstallOptions {
  /** Where agents are kept, each version in a folder of its own. */
  readonly folder: string;
  /** The file that pins every package, the agent among them. */
  readonly constraints: string;
  readonly environment: NodeJS.ProcessEnv;
  /** The Python to be used, by path or by name; by default the first that will do. */
  readonly python?: string | undefined;
  /** Packages beside the agent's own, for tests. */
  readonly extras?: readonly string[];
  /** Called when there is something to be done. */
  readonly progress: () => Progress;
  readonly signal: AbortSignal;
}

/** Written last: what it names is whole. */
const recordSchema = z.object({
  environment: z.string().regex(/^[0-9a-f]+$/),
  digest: z.string(),
  python: z.string(),
  extras: z.array(z.string()),
});
type InstallRecord = z.output<typeof recordSchema>;
const recordFile = 'installed.json';
const lockFile = 'lock';

/** The version that a constraints file pins. */
export function pinnedVersion(constraints: string): string {
  const version = /^openhands-agent-server==(\S+)$/m.exec(constraints)?.[1];
  if (version === undefined) throw new CommandError('the constraints file does not pin openhands-agent-server');
  return version;
}

function recordIn(home: string): InstallRecord | undefined {
  try {
    return recordSchema.parse(JSON.parse(readFileSync(join(home, recordFile), 'utf8')));
  } catch {
    return undefined;
  }
}

const pythonOf = (home: string, environment: string): string => join(home, environment, 'bin', 'python');

interface Wanted {
  readonly digest: string;
  readonly python: string | undefined;
  readonly extras: readonly string[];
}

/** The Python of a whole installation of these very packages; undefined when there is none, or what it stands on is gone. */
function installed(home: string, wanted: Wanted): string | undefined {
  const record = recordIn(home);
  if (record?.digest !== wanted.digest || !wanted.extras.every((extra) => record.extras.includes(extra))) return undefined;
  if (wanted.python !== undefined && wanted.python !== record.python && wanted.python !== basename(record.python)) return undefined;
  const python = pythonOf(home, record.environment);
  try {
    accessSync(python, constants.X_OK);
    return python;
  } catch {
    return undefined;
  }
}

/**
 * The OpenHands agent-server in a virtual environment of its own; returns its Python. What is there already takes no time. Each attempt
 * has a folder of its own, and counts once it is recorded: one that was cut short, in whatever way, is removed by the next. Throws
 * `CommandError` with the command to try by hand, or the signal's reason.
 */
export async function installOpenHands(options: InstallOptions): Promise<string> {
  const { folder, constraints, python, extras = [], signal } = options;
  const text = readFileSync(constraints, 'utf8');
  const version = pinnedVersion(text);
  const digest = createHash('sha256').update(text).digest('hex');
  const home = join(folder, `openhands-${version}`);
  const wanted = { digest, python, extras };
  const known = installed(home, wanted);
  if (known !== undefined) return known;

  try {
    mkdirSync(home, { recursive: true, mode: 0o700 });
    const progress = options.progress();
    try {
      const onWait = () => progress.note('another process is installing it; waiting for that');
      return await whileLocked(join(home, lockFile), { signal, onWait }, async () => {
        const present = installed(home, wanted);
        if (present !== undefined) return present;
        for (const name of readdirSync(home)) if (!name.startsWith(lockFile)) rmSync(join(home, name), { recursive: true, force: true });
        return await new Attempt({ ...options, home, progress, version, digest }).run();
      });
    } finally {
      progress.close();
    }
  } catch (error) {
    const code = systemCodeOf(error);
    if (code === undefined || code === 'ABORT_ERR') throw error;
    const cause = code === 'ENOSPC' ? 'the disk is full' : code;
    throw new CommandError(`the OpenHands agent can't be installed in ${home}: ${cause}`, { cause: error });
  }
}

interface AttemptOptions extends Omit<InstallOptions, 'progress'> {
  readonly home: string;
  readonly progress: Progress;
  readonly version: string;
  readonly digest: string;
}

class Attempt {
  readonly #options: AttemptOptions;
  readonly #environment = randomBytes(4).toString('hex');
  #base = 'python3';

  constructor(options: AttemptOptions) {
    this.#options = options;
  }

  async run(): Promise<string> {
    const { home, progress, version, digest, environment: env, python: wanted, extras = [] } = this.#options;
    progress.step(`OpenHands agent-server ${version}, once: looking for a Python`);
    const base = await findPython({ environment: env, wanted });
    this.#base = base.path;
    progress.detail(`${base.version}, ${base.path}`);
    const folder = join(home, this.#environment);
    try {
      await this.#install(base, folder);
      const record: InstallRecord = { environment: this.#environment, digest, python: base.path, extras: [...extras] };
      const unfinished = join(folder, recordFile);
      writeFileSync(unfinished, JSON.stringify(record));
      renameSync(unfinished, join(home, recordFile));
      progress.done(`OpenHands agent-server ${version} is installed in ${home}`);
      return pythonOf(home, this.#environment);
    } catch (error) {
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
      throw error;
    }
  }

  async #install(base: Python, folder: string): Promise<void> {
    const { progress, constraints, extras = [] } = this.#options;
    const python = join(folder, 'bin', 'python');
    progress.step('making a virtual environment');
    await this.#run([base.path, '-m', 'venv', folder]);
    progress.step('packages');
    const options = ['--no-input', '--disable-pip-version-check', '--no-color', '--progress-bar', 'off'];
    await this.#run([python, '-m', 'pip', 'install', ...options, '-c', constraints, ...packages, ...extras], true);
    progress.step('trying it');
    await this.#run([python, '-c', check]);
  }

  async #run(command: readonly string[], isPip = false): Promise<void> {
    const { progress, signal, environment } = this.#options;
    let state = pipBegins;
    const onLine = (line: string) => {
      state = afterLine(state, line);
      progress.detail(state.detail);
    };
    const { code, output } = await runChild(command, { env: childEnvironment(environment), signal, ...(isPip ? { onLine } : {}) });
    if (code === 0) return;
    const cause = isPip ? pipFailure(output) : failureOf(output, code);
    throw new CommandError(`the OpenHands agent can't be installed: ${cause}\nTo see it by hand:\n  ${this.#byHand()}`);
  }

  /** The same in a folder of whoever tries it, since that of a failed attempt is removed. */
  #byHand(): string {
    const { constraints, extras = [] } = this.#options;
    const base = quoted(this.#base);
    return `${base} -m venv openhands-try && openhands-try/bin/python -m pip install -c ${[constraints, ...packages, ...extras].map(quoted).join(' ')}`;
  }
}

/** What packages run while they are built needs no keys, and no modules of somebody else's. */
function childEnvironment(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(environment).filter(([name]) => !/^(LLM_|PYTHON)/.test(name));
  // With its own price list, litellm does without a thread that asks for another; on a busy machine that one and the import stop each other.
  return { ...Object.fromEntries(kept), PYTHONUNBUFFERED: '1', LITELLM_LOCAL_MODEL_COST_MAP: 'True' };
}

const failureOf = (output: string, code: number | null): string => {
  if (/No space left on device/.test(output)) return 'the disk is full';
  const last = output.trim().split('\n').at(-1)?.slice(0, 400) ?? '';
  return `${last === '' ? 'no word' : last} (exit code ${String(code)})`;
};

const quoted = (text: string): string => (/^[A-Za-z0-9_./=:@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
