import { readdirSync, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { z } from 'zod';
import { CommandError } from '../command-error.ts';
import { systemCodeOf } from '@conversation-operator/base/system-code';
import { runChild } from './child.ts';

/** Minor version of Python 3 that the agent needs at the least. */
const minMinor = 12;
/** Timeout of a candidate: a shim that waits for something is as good as none. */
const probeMs = 10_000;

/** A candidate that will not do, and why. */
interface Unsuitable {
  readonly path: string;
  readonly problem: string;
}

export interface PythonSearch {
  readonly environment: NodeJS.ProcessEnv;
  /** PYTHON: a path, or a name on the PATH. No other is tried then. */
  readonly wanted?: string | undefined;
  readonly signal: AbortSignal;
}

const answerSchema = z.object({
  version: z.tuple([z.int(), z.int(), z.int()]),
  missing: z.array(z.string()),
});

/**
 * Debian has Pythons without some of these; a virtual environment needs the first two, the agent
 * the others.
 */
const question = `
import importlib.util, json, sys
needed = ("venv", "ensurepip", "ssl", "_ssl", "sqlite3", "_sqlite3", "_ctypes")
print(json.dumps({"version": list(sys.version_info[:3]), "missing": [m for m in needed if importlib.util.find_spec(m) is None]}))
`;

/**
 * The program itself is asked: a shim of that name may run another version, or none. Undefined: the
 * candidate will do.
 */
async function problemOf(
  path: string,
  { environment, signal }: PythonSearch,
): Promise<string | undefined> {
  const timeout = AbortSignal.timeout(probeMs);
  try {
    const child = { env: environment, signal: AbortSignal.any([signal, timeout]) };
    const { code, stdout } = await runChild([path, '-I', '-c', question], child);
    if (code !== 0) return `does not run (exit code ${String(code)})`;
    const { version, missing } = answerSchema.parse(JSON.parse(stdout));
    const [major, minor] = version;
    if (major < 3 || (major === 3 && minor < minMinor)) return version.join('.');
    return missing.length === 0
      ? undefined
      : `${version.join('.')}, but without ${missing.join(', ')}`;
  } catch (error) {
    signal.throwIfAborted();
    if (timeout.aborted) return 'does not run (no answer)';
    const code = systemCodeOf(error);
    return code === undefined ? 'does not run as a Python' : `does not run (${code})`;
  }
}

const isFile = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isFile() === true;

/** Files of this name in the folders of the PATH. */
export const filesOnPath = (name: string, environment: NodeJS.ProcessEnv): readonly string[] =>
  (environment['PATH'] ?? '')
    .split(delimiter)
    .flatMap((folder) => (folder === '' ? [] : [join(folder, name)]))
    .filter(isFile);

/**
 * Pythons that pyenv has installed, the latest first: its names on the PATH run the version that is
 * chosen at the moment.
 */
function pythonsOfPyenv({ PYENV_ROOT, HOME = '' }: NodeJS.ProcessEnv): readonly string[] {
  const folder = join(PYENV_ROOT ?? join(HOME, '.pyenv'), 'versions');
  try {
    return readdirSync(folder)
      .filter((name) => /^3\.\d+\.\d+$/.test(name))
      .sort((a, b) => b.localeCompare(a, 'en', { numeric: true }))
      .map((name) => join(folder, name, 'bin', 'python3'));
  } catch {
    return [];
  }
}

/** Candidates, the one that a person would get by its name first. */
function pythonPlaces({ environment, wanted }: PythonSearch): readonly string[] {
  if (wanted !== undefined)
    return wanted.includes('/') ? [wanted].filter(isFile) : filesOnPath(wanted, environment);
  const named = ['python3', 'python3.13', 'python3.12', 'python3.14'].flatMap((name) =>
    filesOnPath(name, environment),
  );
  return [...new Set([...named, ...pythonsOfPyenv(environment).filter(isFile)])];
}

/**
 * No Python of this machine will do; the message names those that there are, and what is needed.
 */
export class NoPythonError extends CommandError {
  constructor(seen: readonly Unsuitable[], wanted: string | undefined) {
    const needed = `Python 3.${minMinor} or later`;
    const [what, none, some] =
      wanted === undefined
        ? [`the OpenHands agent needs ${needed}`, '; there is no Python here', '. There is:']
        : [`PYTHON: ${wanted} will not do, ${needed} is needed`, '; there is no such file', ':'];
    const advice = seen.some(({ problem }) => problem.includes('without'))
      ? 'On Debian and Ubuntu: apt install python3-venv. Else set PYTHON to another one, or install uv, which gets one.'
      : 'Install uv, which gets one, or pyenv install 3.13, or your system’s package, or set PYTHON to one.';
    const found = seen.map(({ path, problem }) => `  ${path}: ${problem}`);
    super([`${what}${seen.length === 0 ? none : some}`, ...found, advice].join('\n'));
  }
}

/** The path of the first suitable one. Throws `NoPythonError`, or the signal's reason. */
export async function findPython(search: PythonSearch): Promise<string> {
  const seen: Unsuitable[] = [];
  for (const path of pythonPlaces(search)) {
    const problem = await problemOf(path, search);
    if (problem === undefined) return path;
    seen.push({ path, problem });
  }
  throw new NoPythonError(seen, search.wanted);
}
