import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

/** Maximum characters of the output that are kept for the explanation of a failure. */
const keptCharacters = 16 * 1024;

export interface ChildOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
  readonly onLine?: (line: string) => void;
}

export interface ChildResult {
  /** Null: ended by a signal. */
  readonly code: number | null;
  /** The end of the output. */
  readonly output: string;
  readonly stdout: string;
}

/**
 * Runs a program to its end, in a process group of its own. The whole group is killed when the
 * signal is aborted or this process exits: nothing that the installer starts has anything to put in
 * order. Rejects at once with the signal's reason, or when the program can't be started.
 */
export async function runChild(
  command: readonly string[],
  { env, signal, onLine }: ChildOptions,
): Promise<ChildResult> {
  signal.throwIfAborted();
  const [program = '', ...args] = command;
  const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  const kill = () => {
    if (child.pid === undefined) return;
    try {
      process.kill(-child.pid, 'SIGKILL');
    } catch {
      // The group has just ended.
    }
  };
  process.once('exit', kill);
  let output = '';
  let stdout = '';
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on('line', (line) => {
      output = `${output}${line}\n`.slice(-keptCharacters);
      if (stream === child.stdout) stdout = `${stdout}${line}\n`.slice(-keptCharacters);
      onLine?.(line);
    });
  const { promise, resolve, reject } = Promise.withResolvers<number | null>();
  const onAbort = () => {
    kill();
    // A process that has left the group may keep the pipes open; this process does not wait for it.
    child.stdout.destroy();
    child.stderr.destroy();
    child.unref();
    reject(signal.reason as Error);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  child.once('error', reject).once('close', resolve);
  try {
    return { code: await promise, output, stdout };
  } finally {
    signal.removeEventListener('abort', onAbort);
    process.off('exit', kill);
  }
}
