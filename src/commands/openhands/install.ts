import { createHash, randomBytes } from 'node:crypto';
import {
  accessSync,
  constants,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { CommandError } from '../command-error.ts';
import { systemCodeOf } from '@conversation-operator/base/system-code';
import { runChild, type ChildOptions } from './child.ts';
import { whileLocked } from './lock.ts';
import type { Progress } from './progress.ts';
import { filesOnPath, findPython, NoPythonError } from './python.ts';

/** All three: of a package that is only needed by another one the installer takes any version. */
const packages = ['openhands-agent-server', 'openhands-sdk', 'openhands-tools'];
/**
 * Slow, but a missing module shows here and not in the first conversation. The imports also leave
 * the modules compiled.
 */
const check =
  'import openhands.agent_server.api, openhands.tools.terminal, openhands.tools.file_editor, openhands.tools.task_tracker';
/** Version of the Python that uv gets where this machine has none. */
const pythonOfUv = '3.13';

/** Maximum lines, and characters of each, that an error repeats. */
const shownLines = 8;
const shownCharacters = 400;

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

/** Written last: the environment that the record names is whole. */
const recordSchema = z.object({
  environment: z.string().regex(/^[0-9a-f]+$/),
  digest: z.string(),
  /** The Python of the settings; a record without one serves settings that name none. */
  python: z.string().optional(),
  extras: z.array(z.string()),
});
type InstallRecord = z.output<typeof recordSchema>;
const recordFile = 'installed.json';
const lockFile = 'lock';

/** The version that a constraints file pins. */
export function pinnedVersion(constraints: string): string {
  const version = /^openhands-agent-server==(\S+)$/m.exec(constraints)?.[1];
  if (version === undefined)
    throw new CommandError('the constraints file does not pin openhands-agent-server');
  return version;
}

const pythonIn = (environment: string): string => join(environment, 'bin', 'python');

type Wanted = Omit<InstallRecord, 'environment'>;

/** The Python of a whole installation of these very packages; undefined where there is none. */
function installed(home: string, wanted: Wanted): string | undefined {
  try {
    const record = recordSchema.parse(JSON.parse(readFileSync(join(home, recordFile), 'utf8')));
    const isWanted =
      record.digest === wanted.digest &&
      wanted.extras.every((extra) => record.extras.includes(extra)) &&
      (wanted.python === undefined || wanted.python === record.python);
    if (!isWanted) return undefined;
    const python = pythonIn(join(home, record.environment));
    accessSync(python, constants.X_OK);
    return python;
  } catch {
    return undefined;
  }
}

/**
 * Installs the OpenHands agent-server in a virtual environment of its own and returns its Python;
 * an installation that is there takes no time. Each attempt has a folder of its own and counts once
 * it is recorded; the next attempt removes those that did not get so far. Throws `CommandError`
 * with the commands to try by hand, or the signal's reason, at once.
 */
export async function installOpenHands(options: InstallOptions): Promise<string> {
  const { folder, constraints: file, environment, extras = [], signal } = options;
  const text = readFileSync(file, 'utf8');
  const version = pinnedVersion(text);
  const wanted = {
    digest: createHash('sha256').update(text).digest('hex'),
    python: options.python,
    extras: [...extras],
  };
  const home = join(folder, `openhands-${version}`);
  const known = installed(home, wanted);
  if (known !== undefined) return known;

  const progress = options.progress();
  try {
    mkdirSync(home, { recursive: true, mode: 0o700 });
    const onWait = () => progress.step('another process is installing it; waiting for that');
    return await whileLocked(join(home, lockFile), { signal, onWait }, async () => {
      const present = installed(home, wanted);
      if (present !== undefined) return present;
      const begun = performance.now();
      progress.step(`installing the OpenHands agent-server ${version} in ${home}, once`);
      const temporary = join(home, 'tmp');
      const child = {
        env: { ...childEnvironment(environment), TMPDIR: temporary },
        signal,
        onLine: progress.detail,
      };
      await removeAttempts(home, child);
      mkdirSync(temporary);
      const name = randomBytes(4).toString('hex');
      try {
        await install(join(home, name), options, { ...child, step: progress.step });
      } catch (error) {
        if (!signal.aborted) await removeAttempts(home, child);
        throw error;
      }
      const record: InstallRecord = { environment: name, ...wanted };
      writeFileSync(join(home, name, recordFile), JSON.stringify(record));
      renameSync(join(home, name, recordFile), join(home, recordFile));
      progress.step(`installed, ${Math.round((performance.now() - begun) / 1000)} s`);
      return pythonIn(join(home, name));
    });
  } catch (error) {
    const code = systemCodeOf(error);
    if (code === undefined || signal.aborted) throw error;
    const cause = code === 'ENOSPC' ? 'the disk is full' : code;
    throw new CommandError(`the OpenHands agent can't be installed in ${home}: ${cause}`, {
      cause: error,
    });
  } finally {
    progress.close();
  }
}

/** A process of its own removes the files, since that takes seconds and can be interrupted. */
async function removeAttempts(home: string, child: ChildOptions): Promise<void> {
  const paths = readdirSync(home).flatMap((name) =>
    name.startsWith(lockFile) ? [] : [join(home, name)],
  );
  if (paths.length > 0) await runChild(['/bin/rm', '-rf', '--', ...paths], child);
}

/** With uv where it is on the PATH, else with pip. */
async function install(
  folder: string,
  { constraints, environment, python: wanted, extras = [], signal }: InstallOptions,
  { step, ...child }: ChildOptions & { readonly step: (text: string) => void },
): Promise<void> {
  const [uv] = filesOnPath('uv', environment);
  const base = await findPython({ environment, wanted, signal }).catch((error: unknown) => {
    if (uv !== undefined && wanted === undefined && error instanceof NoPythonError)
      return pythonOfUv;
    throw error;
  });
  const pinned = ['-c', constraints, ...packages, ...extras];
  const commands = (place: string): readonly (readonly string[])[] => {
    const python = pythonIn(place);
    return [
      uv === undefined ? [base, '-m', 'venv', place] : [uv, 'venv', '--python', base, place],
      uv === undefined
        ? [python, '-m', 'pip', 'install', ...pinned]
        : [uv, 'pip', 'install', '--python', python, ...pinned],
      [python, '-c', check],
    ];
  };
  step(`with ${uv === undefined ? 'pip' : 'uv'} and Python ${base}, one to three minutes`);
  for (const command of commands(folder)) {
    const { code, output } = await runChild(command, child);
    if (code === 0) continue;
    const tail = output.trimEnd().split('\n').slice(-shownLines);
    // A folder of the person who tries the commands, since that of a failed attempt is removed.
    const byHand = commands('openhands-try').map((each) => each.map(quoted).join(' '));
    const lines = [
      `the OpenHands agent can't be installed: exit code ${String(code)} of ${quoted(command[0] ?? '')}, after:`,
      ...tail.map((line) => `  ${line.slice(0, shownCharacters)}`),
      'Try by hand:',
      ...byHand.map((line) => `  ${line}`),
    ];
    throw new CommandError(lines.join('\n'));
  }
}

/**
 * Environment of the build scripts of packages: without keys, and without Python settings of the
 * user.
 */
function childEnvironment(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(environment).filter(([name]) => !/^(LLM_|PYTHON)/.test(name));
  return {
    ...Object.fromEntries(kept),
    PYTHONUNBUFFERED: '1',
    PIP_NO_INPUT: '1',
    PIP_DISABLE_PIP_VERSION_CHECK: '1',
    PIP_PROGRESS_BAR: 'off',
    // With its own price list, litellm does without a thread that asks for another; on a busy
    // machine that one and the import stop each other.
    LITELLM_LOCAL_MODEL_COST_MAP: 'True',
  };
}

const quoted = (text: string): string =>
  /^[A-Za-z0-9_./=:@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
