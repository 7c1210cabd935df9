import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** Kills the registered process groups when its input ends. */
const program = readFileSync(new URL('./process-guard.sh', import.meta.url), 'utf8');

/**
 * Kills the process groups of commands when the server ends, even by SIGKILL: a small shell reads
 * from a pipe, and kills the remaining groups at the end of its input. The shell starts with the
 * first command.
 */
export class ProcessGuard {
  #shell: ChildProcess | undefined;

  add(processGroup: number): void {
    this.#send(`+ ${processGroup}\n`);
  }

  remove(processGroup: number): void {
    this.#send(`- ${processGroup}\n`);
  }

  /** Kills the registered process groups. */
  close(): void {
    this.#shell?.stdin?.end();
    this.#shell = undefined;
  }

  #send(line: string): void {
    this.#shell ??= this.#start();
    this.#shell.stdin?.write(line);
  }

  #start(): ChildProcess {
    // The shell has a session of its own, so that a signal to the process group of the server does
    // not end the guard.
    const shell = spawn('/bin/sh', ['-c', program], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
      env: {},
    });
    const forget = () => {
      if (this.#shell === shell) this.#shell = undefined;
    };
    shell.on('error', forget);
    shell.on('exit', forget);
    shell.stdin.on('error', forget);
    shell.unref();
    return shell;
  }
}
