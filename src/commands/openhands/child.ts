import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

/** Of its output, what is kept for the explanation of a failure. */
const keptCharacters = 64 * 1024;
const graceMs = 3000;

export interface ChildOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
  readonly onLine?: (line: string) => void;
}

export interface ChildResult {
  /** Null: ended by a signal. */
  readonly code: number | null;
  /** The end of what it has printed. */
  readonly output: string;
}

/**
 * A program to its end, with all that it starts: in a process group of its own, which is ended when the signal is aborted, or this
 * process exits. Rejects when it can't be started, or with the signal's reason.
 */
export async function runChild(command: readonly string[], { env, signal, onLine }: ChildOptions): Promise<ChildResult> {
  signal.throwIfAborted();
  const [program = '', ...args] = command;
  const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  const end = (name: NodeJS.Signals) => {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    try {
      process.kill(-child.pid, name);
    } catch {
      // It has just ended.
    }
  };
  let timer: NodeJS.Timeout | undefined;
  const onAbort = () => {
    end('SIGTERM');
    timer = setTimeout(() => end('SIGKILL'), graceMs);
  };
  const onExit = () => end('SIGKILL');
  signal.addEventListener('abort', onAbort, { once: true });
  process.once('exit', onExit);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      output = `${output}${line}\n`.slice(-keptCharacters);
      onLine?.(line);
    });
  }
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject).once('close', resolve);
    });
    signal.throwIfAborted();
    return { code, output };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
    process.off('exit', onExit);
  }
}
