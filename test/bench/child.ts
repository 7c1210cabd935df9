import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export interface Child {
  readonly pid: number;
  line(): Promise<string>;
  close(): Promise<void>;
}

/** Starts a program of this folder or below `..` in a process, off this one's event loop. */
export function startChild(
  program: string,
  args: readonly string[] = [],
  flags: readonly string[] = [],
): Child {
  const command = [
    '--disable-warning=ExperimentalWarning',
    ...flags,
    join(import.meta.dirname, program),
    ...args,
  ];
  const child = spawn(process.execPath, command, { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  return {
    pid: child.pid ?? 0,
    line: async () => {
      const next = await lines.next();
      if (next.done === true) throw new Error(`${program} has ended`);
      return next.value;
    },
    close: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    },
  };
}
