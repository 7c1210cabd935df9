import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, renameSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { systemCodeOf } from '@conversation-operator/base/system-code';
import { CommandError } from './terminal.ts';

/**
 * Installs an agent into a folder unless `program` exists there. `install` works in a temporary
 * folder, which is renamed once it is complete, so that no incomplete installation is used.
 */
export async function installInto(
  home: string,
  program: string,
  install: (attempt: string) => Promise<void>,
): Promise<void> {
  if (existsSync(program)) return;
  const attempt = `${home}.${randomUUID()}`;
  try {
    await install(attempt);
    if (existsSync(program)) return;
    // `home` does not exist, or contains an incomplete installation without `program`.
    await rm(home, { recursive: true, force: true });
    if (!existsSync(home)) renameSync(attempt, home);
  } finally {
    await rm(attempt, { recursive: true, force: true });
  }
}

export interface InstallerOptions {
  readonly agent: string;
  readonly environment: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
  /** Text after "… is installed by" in the error for an installer that is not on the PATH. */
  readonly missing: string;
}

/**
 * Runs an installer, whose output goes to standard error. The installer gets no API keys of models.
 * Throws `CommandError`, or rejects with the reason of the signal.
 */
export async function runInstaller(
  [program, ...args]: readonly [program: string, ...args: readonly string[]],
  { agent, environment, signal, missing }: InstallerOptions,
): Promise<void> {
  const child = spawn(program, args, {
    env: withoutKeys(environment),
    stdio: ['ignore', 2, 2],
    signal,
    killSignal: 'SIGKILL',
  });
  const [code] = (await once(child, 'close').catch((error: unknown) => {
    signal.throwIfAborted();
    if (systemCodeOf(error) !== 'ENOENT') throw error;
    throw new CommandError(`${agent} is installed by ${missing}`, { cause: error });
  })) as [number | null];
  if (code !== 0)
    throw new CommandError(
      `${agent} can't be installed: exit code ${String(code)} of ${program} ${args.join(' ')}`,
    );
}

/** Environment of an installer, without the API keys of models. */
const withoutKeys = (environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => !name.startsWith('LLM_')));

/** Whether a command exists and succeeds. Rejects with the reason of the signal. */
export async function succeeds(
  [program, ...args]: readonly [program: string, ...args: readonly string[]],
  { environment, signal }: Pick<InstallerOptions, 'environment' | 'signal'>,
): Promise<boolean> {
  const child = spawn(program, args, {
    env: withoutKeys(environment),
    stdio: 'ignore',
    signal,
    killSignal: 'SIGKILL',
  });
  const [code] = (await once(child, 'close').catch((error: unknown) => {
    signal.throwIfAborted();
    if (systemCodeOf(error) !== 'ENOENT') throw error;
    return [undefined];
  })) as [number | null | undefined];
  return code === 0;
}
