import { createHash } from 'node:crypto';
import { readFileSync, mkdirSync, accessSync, constants, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { CommandError } from './terminal.ts';
import { installInto, runInstaller, succeeds } from './installer.ts';
import type { ImageProgram } from '@conversation-operator/local-cluster/kubelet/options';
import type { DataFolder } from './data-folder.ts';

/** Names of pyenv's folders for the versions of Python that the OpenHands agent supports. */
const suitable = /^3\.(12|13)\.(\d+)$/;

/**
 * Newest Python of pyenv that the agent supports. uv itself finds only pyenv's selected version.
 */
function pyenvPython({
  PYENV_ROOT = '',
  HOME = '',
}: Readonly<Record<string, string | undefined>>): string | undefined {
  const folder = join(PYENV_ROOT === '' ? join(HOME, '.pyenv') : PYENV_ROOT, 'versions');
  const [newest] = namesIn(folder)
    .flatMap((name) => {
      const [, minor, patch] = suitable.exec(name) ?? [];
      const python = join(folder, name, 'bin', 'python');
      return minor !== undefined && isExecutable(python)
        ? [{ python, minor: Number(minor), patch: Number(patch) }]
        : [];
    })
    .toSorted((one, other) => other.minor - one.minor || other.patch - one.patch);
  return newest?.python;
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** The list names all three, because uv takes any version of a package that only others need. */
const packages = ['openhands-agent-server', 'openhands-sdk', 'openhands-tools'];
/** Versions of Python that the agent supports. `UV_PYTHON` overrides this range. */
const pythonVersions = '>=3.12,<3.14';

export interface InstallOptions {
  /** Folder of all installed agents, with a folder for each version. */
  readonly folder: string;
  /** File of pip constraints, which pins every package including the agent. */
  readonly constraints: string;
  readonly environment: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
}

export function pinnedVersion(constraints: string): string {
  const version = /^openhands-agent-server==(\S+)$/m.exec(constraints)?.[1];
  if (version === undefined)
    throw new CommandError('the constraints file does not pin openhands-agent-server');
  return version;
}

/**
 * Returns the path of Python in a virtual environment with the pinned OpenHands agent. uv creates a
 * missing environment. Throws `CommandError`, or rejects with the reason of the signal.
 */
export async function installOpenHands(options: InstallOptions): Promise<string> {
  const { folder, constraints } = options;
  const text = readFileSync(constraints, 'utf8');
  const digest = createHash('sha256').update(text).digest('hex').slice(0, 8);
  const home = join(folder, `openhands-${pinnedVersion(text)}-${digest}`);
  const python = join(home, 'bin', 'python');
  await installInto(home, python, async (attempt) => {
    const chosen = { ...options, environment: await withPython(options) };
    await uv(['venv', '--relocatable', attempt], chosen);
    await uv(['pip', 'install', '--python', attempt, '-c', constraints, ...packages], chosen);
  });
  return python;
}

/**
 * Environment for uv, which selects the Python of the agent: that of `UV_PYTHON`, else one that uv
 * finds on this machine, else one of pyenv, else one that uv downloads.
 */
async function withPython({ environment, signal }: InstallOptions): Promise<NodeJS.ProcessEnv> {
  const asIs = { UV_PYTHON: pythonVersions, ...environment };
  if (environment['UV_PYTHON'] !== undefined) return asIs;
  const python = pyenvPython(environment);
  if (python === undefined) return asIs;
  const finding = ['uv', 'python', 'find', '--quiet', pythonVersions] as const;
  const isFound = await succeeds(finding, { environment, signal });
  return isFound ? asIs : { ...environment, UV_PYTHON: python };
}

const uv = (args: readonly string[], { environment, signal }: InstallOptions): Promise<void> =>
  runInstaller(['uv', ...args], {
    agent: 'the OpenHands agent',
    environment: { UV_COMPILE_BYTECODE: '1', ...environment },
    signal,
    missing: 'uv, which is not on the PATH: pip install uv, or https://docs.astral.sh/uv',
  });

export const openHandsImage = 'conversation-operator/openhands-agent';

/** The program listens on the IP address of its pod. The pod's `args` override these options. */
const script = 'exec "$0" -m openhands.agent_server --host "$HOST" --port 8000 "$@"';

/**
 * Maximum bytes of the folder's path. The path of a socket has at most 107 bytes, and tmux and the
 * agent append /tmux-4294967295/openhands-<32 hex digits> to the folder.
 */
const longestTmuxFolder = 107 - 16 - 43;

/** Sets the folder of tmux sockets. Sets nothing if its path is too long; tmux then uses /tmp. */
function tmuxEnvironment(folder: DataFolder): Readonly<Record<string, string>> {
  const path = folder.file('tmux');
  if (Buffer.byteLength(path) > longestTmuxFolder) return {};
  mkdirSync(path, { recursive: true, mode: 0o700 });
  return { TMUX_TMPDIR: path };
}

export const openHandsProgram = (python: string, folder: DataFolder): ImageProgram => ({
  command: ['/bin/sh', '-c', script, python],
  env: {
    ...tmuxEnvironment(folder),
    // Without this variable LiteLLM downloads a list of prices at each start.
    LITELLM_LOCAL_MODEL_COST_MAP: 'True',
    OPENHANDS_SUPPRESS_BANNER: '1',
    // Without this variable the agent wraps lines of its log at 80 columns.
    LOG_JSON: 'true',
  },
});
