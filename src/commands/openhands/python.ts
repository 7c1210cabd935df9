import { execFile } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { CommandError } from '../command-error.ts';

const run = promisify(execFile);

type Version = readonly [major: number, minor: number, patch: number];

/** What the agent asks for. */
const least = { major: 3, minor: 12 };
/** A shim that waits for something is as good as none. */
const probeMs = 10_000;

export interface Python {
  readonly path: string;
  readonly version: string;
}

/** One that was looked at, and why it will not do. */
interface Unsuitable {
  readonly path: string;
  readonly problem: string;
}

export interface PythonSearch {
  readonly environment: NodeJS.ProcessEnv;
  /** PYTHON: a path, or a name on the PATH. No other is looked at then. */
  readonly wanted?: string | undefined;
}

const answerSchema = z.object({ version: z.tuple([z.int(), z.int(), z.int()]), missing: z.array(z.string()) });

/** Debian has Pythons without some of these; a virtual environment needs the first two, the agent the others. */
const question = `
import importlib.util, json, sys
needed = ("venv", "ensurepip", "ssl", "_ssl", "sqlite3", "_sqlite3", "_ctypes")
print(json.dumps({"version": list(sys.version_info[:3]), "missing": [m for m in needed if importlib.util.find_spec(m) is None]}))
`;

/** The program itself is asked: a shim of that name may run another version, or none. */
async function ask(path: string, environment: NodeJS.ProcessEnv): Promise<Python | Unsuitable> {
  let text: string;
  try {
    ({ stdout: text } = await run(path, ['-I', '-c', question], { env: environment, timeout: probeMs, killSignal: 'SIGKILL' }));
  } catch (error) {
    return { path, problem: `does not run (${exitOf(error)})` };
  }
  const answer = answerOf(text);
  if (answer === undefined) return { path, problem: 'does not run as a Python' };
  const version = answer.version.join('.');
  if (!isRecent(answer.version)) return { path, problem: version };
  if (answer.missing.length > 0) return { path, problem: `${version}, but without ${answer.missing.join(', ')}` };
  return { path, version };
}

/** Of what `execFile` rejects with: a number is an exit code, a text the system's word. */
function exitOf(error: unknown): string {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  if (typeof code === 'number') return `exit code ${code}`;
  return typeof code === 'string' ? code : 'no answer';
}

function answerOf(text: string): z.output<typeof answerSchema> | undefined {
  try {
    return answerSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

const isRecent = ([major, minor]: Version): boolean => major > least.major || (major === least.major && minor >= least.minor);

const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() === true;

/** Folders below this one that begin with a version of Python, the latest first. */
function versionsIn(folder: string): readonly string[] {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return [];
  }
  const versioned = names.flatMap((name) => {
    const [, major, minor, patch] = /^(?:cpython-)?(\d+)\.(\d+)(?:\.(\d+))?/.exec(name) ?? [];
    return major === undefined ? [] : [{ name, version: [Number(major), Number(minor), Number(patch ?? 0)] as const }];
  });
  const order = (a: Version, b: Version) => b[0] - a[0] || b[1] - a[1] || b[2] - a[2];
  return versioned
    .filter(({ version }) => isRecent(version))
    .sort((a, b) => order(a.version, b.version))
    .map(({ name }) => join(folder, name));
}

/** Where Pythons are, the one that a person would get by its name first. */
export function pythonPlaces({ environment, wanted }: PythonSearch): readonly string[] {
  const folders = (environment['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  const named = (name: string) => folders.map((folder) => join(folder, name));
  if (wanted !== undefined) return wanted.includes('/') ? [wanted] : named(wanted).filter(isFile);
  const home = environment['HOME'] ?? '';
  const pyenv = environment['PYENV_ROOT'] ?? join(home, '.pyenv');
  const uv = environment['UV_PYTHON_INSTALL_DIR'] ?? join(environment['XDG_DATA_HOME'] ?? join(home, '.local', 'share'), 'uv', 'python');
  const places = [
    ...['python3', 'python3.13', 'python3.12', 'python3.14'].flatMap(named),
    ...[join(pyenv, 'versions'), uv].flatMap(versionsIn).map((folder) => join(folder, 'bin', 'python3')),
  ];
  return [...new Set(places)].filter(isFile);
}

/** No Python of this machine will do; the message says which there are, and what is needed. */
export class NoPythonError extends CommandError {
  constructor(seen: readonly Unsuitable[], wanted: string | undefined) {
    const needed = `Python ${least.major}.${least.minor} or later`;
    const found = seen.map(({ path, problem }) => `  ${path}: ${problem}`);
    const lines =
      wanted === undefined
        ? [`the OpenHands agent needs ${needed}${found.length === 0 ? '; there is no Python here' : '. There is:'}`, ...found]
        : [`PYTHON: ${wanted} will not do, ${needed} is needed${found.length === 0 ? '; there is no such file' : ':'}`, ...found];
    const advice = seen.some(({ problem }) => problem.includes('without'))
      ? 'On Debian and Ubuntu: apt install python3-venv. Else set PYTHON to another one.'
      : 'Install one (uv python install 3.13, pyenv install 3.13, or your system’s package), or set PYTHON to it.';
    super([...lines, advice].join('\n'));
  }
}

/** The first suitable one. Throws `NoPythonError`. */
export async function findPython(search: PythonSearch): Promise<Python> {
  const seen: Unsuitable[] = [];
  for (const path of pythonPlaces(search)) {
    const candidate = await ask(path, search.environment);
    if ('version' in candidate) return candidate;
    seen.push(candidate);
  }
  throw new NoPythonError(seen, search.wanted);
}
