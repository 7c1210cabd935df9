import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { constants } from 'node:os';
import { maskText, noNeedles, type Needles } from './mask.ts';

/** Shell program that kills the registered process groups when its input ends. */
const program = readFileSync(new URL('./process-guard.sh', import.meta.url), 'utf8');

/**
 * Kills the process groups of commands when the server ends, even if SIGKILL ends the server: a
 * shell reads the groups from a pipe, and kills the remaining groups when the pipe closes.
 */
export class ProcessGuard {
  #shell: ChildProcess | undefined;

  add(processGroup: number): void {
    this.#send(`+ ${processGroup}\n`);
  }

  remove(processGroup: number): void {
    this.#send(`- ${processGroup}\n`);
  }

  close(): void {
    this.#shell?.stdin?.end();
    this.#shell = undefined;
  }

  #send(line: string): void {
    this.#shell ??= this.#start();
    this.#shell.stdin?.write(line);
  }

  #start(): ChildProcess {
    // The shell has its own session, so no signal to the server's process group ends the shell.
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

/** Keeps the beginning and the end of a command's output, and the number of omitted bytes. */
export class BoundedOutput {
  readonly #half: number;
  #head = Buffer.alloc(0);
  #tail: Buffer[] = [];
  #tailBytes = 0;
  #droppedBytes = 0;

  constructor(maxBytes: number) {
    this.#half = Math.floor(maxBytes / 2);
  }

  push(chunk: Buffer): void {
    const room = this.#half - this.#head.length;
    if (room > 0) this.#head = Buffer.concat([this.#head, chunk.subarray(0, room)]);
    const rest = room > 0 ? chunk.subarray(room) : chunk;
    if (rest.length === 0) return;
    this.#tail.push(rest);
    this.#tailBytes += rest.length;
    // `#compact` runs rarely, so each byte is copied once or twice, however small the chunks are.
    if (this.#tailBytes > 4 * this.#half + 4096) this.#compact();
  }

  /** Returns the output with needles masked, also those that omitted bytes have truncated. */
  toString(needles = noNeedles): string {
    this.#compact();
    const tail = Buffer.concat(this.#tail);
    if (this.#droppedBytes === 0)
      return maskText(Buffer.concat([this.#head, tail]).toString('utf8'), needles);
    const head = maskText(this.#head.toString('utf8'), needles, { continues: true });
    const end = maskText(tail.toString('utf8'), needles, { continued: true });
    return `${head}\n… ${this.#droppedBytes} bytes omitted …\n${end}`;
  }

  #compact(): void {
    const excess = this.#tailBytes - this.#half;
    if (excess <= 0) return;
    this.#tail = [Buffer.from(Buffer.concat(this.#tail).subarray(excess))];
    this.#tailBytes = this.#half;
    this.#droppedBytes += excess;
  }
}

export type OutputListener = (chunk: Buffer, stream: 'stdout' | 'stderr') => void;

export interface CommandOptions {
  readonly command: string;
  readonly shell?: 'sh' | 'bash';
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Maximum bytes of each stream, or of both together when `merged`. */
  readonly maxOutputBytes: number;
  /** Writes standard error to the buffer of standard output, in the order of arrival. */
  readonly merged?: boolean;
  /** Receives the output as it arrives, with secrets unmasked. */
  readonly onOutput?: OutputListener | undefined;
  /** Returns the secrets to mask in the output. Called when the command has ended. */
  readonly needles?: () => Needles;
  /** An abort kills the command. When the command has ended, `run` rejects with the reason. */
  readonly signal?: AbortSignal;
}

export interface CommandResult {
  /** 128 + n when signal n ended the command; -1 after a timeout, or if the shell did not start. */
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly timedOut: boolean;
}

/** Delay between the SIGTERM at a timeout and the SIGKILL. */
const killDelayMs = 1000;
/** Maximum wait for output after the shell's end. A process in another group may hold the pipe. */
const drainMs = 250;

/** Runs shell commands in separate process groups. Background processes end with their command. */
export class Commands {
  readonly guard = new ProcessGuard();
  readonly #running = new Set<number>();

  async run(options: CommandOptions): Promise<CommandResult> {
    options.signal?.throwIfAborted();
    const folder = await stat(options.cwd).catch(() => undefined);
    if (folder?.isDirectory() !== true)
      return notStarted(`working directory ${options.cwd} does not exist`);
    options.signal?.throwIfAborted();
    const out = new BoundedOutput(options.maxOutputBytes);
    const err = options.merged === true ? out : new BoundedOutput(options.maxOutputBytes);
    const shell = options.shell === 'bash' && existsSync('/bin/bash') ? '/bin/bash' : '/bin/sh';
    const child = spawn(shell, ['-c', options.command], {
      cwd: options.cwd,
      env: options.env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const [name, output] of [
      ['stdout', out],
      ['stderr', err],
    ] as const)
      child[name].on('data', (chunk: Buffer) => {
        output.push(chunk);
        options.onOutput?.(chunk, name);
      });
    const group = child.pid;
    if (group === undefined) return notStarted(await startError(child));
    this.#running.add(group);
    this.guard.add(group);
    const abort = () => kill(group, 'SIGKILL');
    options.signal?.addEventListener('abort', abort, { once: true });
    const deadline = killAfter(group, options.timeoutMs);
    const exitCode = await exitOf(child);
    const timedOut = deadline.cancel();
    options.signal?.removeEventListener('abort', abort);
    kill(group, 'SIGKILL');
    this.#running.delete(group);
    this.guard.remove(group);
    await drained(child);
    options.signal?.throwIfAborted();
    const needles = options.needles?.() ?? noNeedles;
    return {
      exitCode: timedOut ? -1 : exitCode,
      stdout: out.toString(needles),
      stderr: options.merged === true ? '' : err.toString(needles),
      timedOut,
    };
  }

  close(): void {
    for (const group of this.#running) kill(group, 'SIGKILL');
    this.guard.close();
  }
}

/** Sends SIGTERM at the timeout, then SIGKILL. `cancel` returns whether the timeout has passed. */
function killAfter(group: number, timeoutMs: number): { cancel(): boolean } {
  let passed = false;
  let timer = setTimeout(() => {
    passed = true;
    kill(group, 'SIGTERM');
    timer = setTimeout(() => kill(group, 'SIGKILL'), killDelayMs);
  }, timeoutMs);
  return {
    cancel: () => {
      clearTimeout(timer);
      return passed;
    },
  };
}

const notStarted = (reason: string): CommandResult => ({
  exitCode: -1,
  stdout: '',
  stderr: reason,
  timedOut: false,
});

const startError = (child: ChildProcess): Promise<string> =>
  new Promise((resolve) =>
    child.once('error', (error) => resolve(`the shell could not be started: ${error.message}`)),
  );

const exitOf = (child: ChildProcess): Promise<number> =>
  new Promise((resolve) => {
    child.once('exit', (code, signal) =>
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])),
    );
  });

const drained = (child: ChildProcess): Promise<void> =>
  new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      child.stdout?.destroy();
      child.stderr?.destroy();
      resolve();
    };
    const timer = setTimeout(finish, drainMs);
    child.once('close', finish);
    if (child.stdout?.closed === true && child.stderr?.closed === true) finish();
  });

export function kill(processGroup: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-processGroup, signal);
  } catch {
    // The process group has already ended.
  }
}
