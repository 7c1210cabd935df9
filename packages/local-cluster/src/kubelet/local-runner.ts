import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { constants } from 'node:os';
import type { Readable } from 'node:stream';
import { type Clock, sleep } from '@conversation-operator/base/clock';
import type { Runtime } from '@conversation-operator/base/runtime';
import type { ProcessExit, ProcessRequest, ProcessRunner, RunningProcess } from './options.ts';

/** Environment variables of every process, for the id of the node and the id of the run. */
const nodeMarker = 'CONVERSATION_OPERATOR_NODE';
const runMarker = 'CONVERSATION_OPERATOR_RUN';

interface ProcessEntry {
  readonly pid: number;
  /** Session id, which is the pid of the process that started the session. */
  readonly session: number;
  /** Start time in clock ticks since boot, which distinguishes two processes with the same pid. */
  readonly startTicks: number;
  readonly node: string | undefined;
  readonly run: string | undefined;
}

/** Parses `/proc/<pid>/stat` after the name, which may contain any character (proc(5)). */
export function parseStat(
  text: string,
): { readonly state: string; readonly session: number; readonly startTicks: number } | undefined {
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, session, startTicks] = [fields[0], Number(fields[3]), Number(fields[19])];
  return state === undefined || !Number.isInteger(session) || !Number.isInteger(startTicks)
    ? undefined
    : { state, session, startTicks };
}

const readProc = (path: string): string | undefined => {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    // The process has ended, or belongs to another user.
    return undefined;
  }
};

const valueOf = (environ: string, name: string): string | undefined => {
  const start = environ.indexOf(`\0${name}=`);
  if (start < 0) return undefined;
  const from = start + name.length + 2;
  const end = environ.indexOf('\0', from);
  return environ.slice(from, end < 0 ? undefined : end);
};

/** Returns the process that now has the pid; undefined if there is none, or only a zombie. */
function readProcess(pid: number): ProcessEntry | undefined {
  const stat = parseStat(readProc(`/proc/${pid}/stat`) ?? '');
  if (stat === undefined || stat.state === 'Z' || stat.state === 'X') return undefined;
  const environ = `\0${readProc(`/proc/${pid}/environ`) ?? ''}`;
  const { session, startTicks } = stat;
  return {
    pid,
    session,
    startTicks,
    node: valueOf(environ, nodeMarker),
    run: valueOf(environ, runMarker),
  };
}

const processIds = (): readonly number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid !== process.pid);

interface KillRequest {
  readonly matches: (entry: ProcessEntry) => boolean;
  readonly done: () => void;
  emptyPasses: number;
}

/**
 * Sorts by start time, so that parents precede their children, even if these have lower pids: a
 * shell whose child is killed first would continue with its next command.
 */
export const parentsFirst = (entries: readonly ProcessEntry[]): readonly ProcessEntry[] =>
  entries.toSorted((one, other) => one.startTicks - other.startTicks || one.pid - other.pid);

const pauseMs = 20;
const chunkSize = 64;

/**
 * Kills the processes that match a condition. Each process is read again and killed in the same
 * turn of the event loop, so that another process that has received its pid survives. Concurrent
 * calls share their passes over /proc.
 */
class ProcessTable {
  readonly #clock: Clock;
  readonly #requests = new Set<KillRequest>();
  #running = false;

  constructor(options: { readonly clock: Clock }) {
    this.#clock = options.clock;
  }

  /** Sends SIGKILL until two successive passes find no match. Rejects when `signal` is aborted. */
  killAll(matches: (entry: ProcessEntry) => boolean, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const request: KillRequest = { matches, done: resolve, emptyPasses: 0 };
      this.#requests.add(request);
      signal?.addEventListener('abort', () => {
        if (this.#requests.delete(request)) reject(signal.reason as Error);
      });
      if (!this.#running) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#running = true;
    while (this.#requests.size > 0) {
      const requests = [...this.#requests];
      const found = await this.#pass(requests);
      for (const request of requests) {
        // One pass may miss a child of a parent that ends during the pass.
        request.emptyPasses = found.has(request) ? 0 : request.emptyPasses + 1;
        if (request.emptyPasses < 2) continue;
        this.#requests.delete(request);
        request.done();
      }
      if (found.size > 0) await sleep(this.#clock, pauseMs);
    }
    this.#running = false;
  }

  async #pass(requests: readonly KillRequest[]): Promise<ReadonlySet<KillRequest>> {
    const matching: ProcessEntry[] = [];
    let checked = 0;
    for (const pid of processIds()) {
      const entry = readProcess(pid);
      if (entry !== undefined && requests.some(({ matches }) => matches(entry)))
        matching.push(entry);
      checked += 1;
      if (checked % chunkSize === 0) await new Promise<void>((resolve) => setImmediate(resolve));
    }
    const found = new Set<KillRequest>();
    for (const { pid } of parentsFirst(matching)) {
      const entry = readProcess(pid);
      if (entry === undefined) continue;
      const of = requests.filter(({ matches }) => matches(entry));
      if (of.length > 0 && this.#kill(pid)) of.forEach((request) => found.add(request));
    }
    return found;
  }

  /** Returns whether the next pass over /proc has to check the process again. */
  #kill(pid: number): boolean {
    try {
      process.kill(pid, 'SIGKILL');
      return true;
    } catch (error) {
      // EPERM: the process changed its user (setuid) and cannot be killed. Otherwise it has ended.
      return !(error instanceof Error && 'code' in error && error.code === 'EPERM');
    }
  }
}

/** Maximum wait for the output to end after a run. A surviving process may keep the pipe open. */
const drainMs = 1000;
const recoverTimeoutMs = 30_000;

const signalNumbers: Readonly<Record<string, number>> = constants.signals;

interface Options extends Pick<Runtime, 'clock' | 'logger'> {
  readonly nodeId: string;
}

/**
 * Runs processes of this machine, each in its own session. A run consists of the processes of its
 * session and of those with the id of the run in their environment. A process escapes when it both
 * starts another session and clears its environment. After a crash of this process, a process that
 * has cleared its environment and is alone in its session escapes too.
 */
export class LocalRunner implements ProcessRunner {
  readonly #options: Options;
  readonly #table: ProcessTable;

  constructor(options: Options) {
    this.#options = options;
    this.#table = new ProcessTable({ clock: options.clock });
  }

  async recover(): Promise<void> {
    const sessions = new Set<number>();
    const ownSession = readProcess(process.pid)?.session;
    const left = new Set<number>();
    const timeout = new AbortController();
    const timer = this.#options.clock.after(recoverTimeoutMs, () => {
      timeout.abort(
        new Error(`processes of an earlier run can't be ended: ${[...left].join(', ')}`),
      );
    });
    await this.#table
      .killAll((entry) => {
        if (entry.node !== this.#options.nodeId && !sessions.has(entry.session)) return false;
        left.add(entry.pid);
        // The session may contain processes that have cleared their environment. Session 0 was
        // started outside this pid namespace.
        if (entry.session !== 0 && entry.session !== ownSession) sessions.add(entry.session);
        return true;
      }, timeout.signal)
      .finally(() => timer.cancel());
    if (left.size > 0)
      this.#options.logger.info('Ended processes that an earlier run had left', {
        count: left.size,
      });
  }

  async start(request: ProcessRequest): Promise<RunningProcess> {
    const [program = '', ...args] = request.command;
    const child = spawn(program, args, {
      cwd: request.workingDir,
      env: { ...request.env, [nodeMarker]: this.#options.nodeId, [runMarker]: request.runId },
      stdio: ['ignore', 'pipe', 'pipe'],
      // `detached` calls setsid, which creates a session and a process group.
      detached: true,
    });
    const { pid } = child;
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve).once('error', reject);
    });
    if (pid === undefined) throw new Error('the process has no id');
    // After the start, 'error' only means that a signal could not be sent.
    child.on('error', (error) =>
      this.#options.logger.warn('A signal could not be sent', { error, pid }),
    );
    return new LocalProcess({
      child,
      pid,
      request,
      table: this.#table,
      clock: this.#options.clock,
    });
  }

  async close(): Promise<void> {
    await this.#table.killAll((entry) => entry.node === this.#options.nodeId);
  }
}

class LocalProcess implements RunningProcess {
  readonly exited: Promise<ProcessExit>;
  readonly #pid: number;
  #leaderEnded = false;

  constructor(options: {
    readonly child: ChildProcess;
    readonly pid: number;
    readonly request: ProcessRequest;
    readonly table: ProcessTable;
    readonly clock: Clock;
  }) {
    const { child, pid, request, table, clock } = options;
    this.#pid = pid;
    const { stdout, stderr } = child;
    const drained = Promise.all([pump(stdout, request.output), pump(stderr, request.output)]);
    this.exited = new Promise<ProcessExit>((resolve) => {
      child.once('exit', (code, signal) => {
        this.#leaderEnded = true;
        resolve({ exitCode: code ?? 128 + (signalNumbers[signal ?? ''] ?? 0) });
      });
    }).then(async (exit) => {
      // The end of the first process ends all others, as in a pid namespace.
      await table.killAll((entry) => entry.session === pid || entry.run === request.runId);
      const timer = clock.after(drainMs, () => {
        stdout?.destroy();
        stderr?.destroy();
      });
      await drained;
      timer.cancel();
      return exit;
    });
  }

  terminate(): void {
    this.#signal('SIGTERM');
  }

  kill(): void {
    this.#signal('SIGKILL');
  }

  #signal(signal: 'SIGTERM' | 'SIGKILL'): void {
    // The kernel does not reuse the pid until the end of the process has been observed.
    if (this.#leaderEnded) return;
    try {
      process.kill(-this.#pid, signal);
    } catch {
      // The process has just ended.
    }
  }
}

async function pump(
  stream: Readable | null,
  output: (chunk: Uint8Array) => Promise<void>,
): Promise<void> {
  if (stream === null) return;
  try {
    for await (const chunk of stream) await output(chunk as Uint8Array);
  } catch {
    // The stream was destroyed after `drainMs`, when all output of the run had arrived.
  }
}
