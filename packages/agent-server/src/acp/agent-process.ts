import { spawn, type ChildProcessByStdio } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { BoundedOutput, kill, type ProcessGuard } from '../commands.ts';
import type { Needles } from '../mask.ts';

const maxStderrBytes = 4_096;

export interface AgentProcessOptions {
  readonly command: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly guard: ProcessGuard;
  /** Called when the process has ended, or could not be started. */
  readonly onEnd: (message: string) => void;
}

/** Process of an ACP agent, and leader of the process group of everything that the agent starts. */
export class AgentProcess {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #guard: ProcessGuard;
  readonly #stderr = new BoundedOutput(maxStderrBytes);
  readonly ended: Promise<void>;

  constructor({ command, cwd, env, guard, onEnd }: AgentProcessOptions) {
    this.#guard = guard;
    const [program = '', ...args] = command;
    this.#child = spawn(program, args, {
      cwd,
      env,
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#child.stderr.on('data', (chunk: Buffer) => this.#stderr.push(chunk));
    this.#child.stdin.on('error', () => undefined);
    this.#child.stdout.on('error', () => undefined);
    if (this.#child.pid !== undefined) guard.add(this.#child.pid);
    this.ended = new Promise((resolve) => {
      this.#child.once('error', (error) => {
        onEnd(`The agent's program ${program} can't be started: ${error.message}`);
        resolve();
      });
      this.#child.once('exit', (code, signal) => {
        const end = signal === null ? `exit code ${String(code)}` : `signal ${signal}`;
        onEnd(`The agent's process has ended with ${end}.`);
        resolve();
      });
    });
  }

  get input(): Writable {
    return this.#child.stdin;
  }

  get output(): AsyncIterable<Buffer> {
    return this.#child.stdout;
  }

  /** Returns the beginning and the end of the standard error, with secrets masked. */
  printed(needles: Needles): string {
    return this.#stderr.toString(needles).trim();
  }

  /** Kills the process group: the process and everything that it has started. */
  kill(): void {
    if (this.#child.pid !== undefined) kill(this.#child.pid, 'SIGKILL');
  }

  /** Kills the process group, and removes it from the `ProcessGuard`. */
  release(): void {
    this.kill();
    if (this.#child.pid !== undefined) this.#guard.remove(this.#child.pid);
  }
}
