import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, renameSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { systemCodeOf } from '@conversation-operator/base/system-code';
import { CommandError } from './terminal.ts';

/**
 * Installs an agent into a folder unless `program` in it exists. The installation works in a folder
 * of its own, which gets its final name once it is complete: an interrupted installation is never
 * used.
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
    // The folder is absent, or a part of it that the program needs has gone.
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
  /** Text after "is installed by" where the installer itself is not on the PATH. */
  readonly missing: string;
}

/**
 * Runs an installer, whose output goes to standard error. Keys of models stay hidden from packages.
 * Throws `CommandError`, or rejects with the signal's reason.
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

/** Environment of an installer, whose packages get no keys of models. */
const withoutKeys = (environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => !name.startsWith('LLM_')));

/** Whether an installer's command succeeds; false if not on the PATH. Rejects on the signal. */
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
