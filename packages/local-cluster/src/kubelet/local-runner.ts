import { spawn, type ChildProcess } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { z } from 'zod';
import type { Clock } from '@conversation-operator/base/clock';
import type { Runtime } from '@conversation-operator/base/runtime';
import type { ProcessExit, ProcessRequest, ProcessRunner, RunningProcess } from './options.ts';
import {
  ProcessTable,
  nodeMarker,
  readProcess,
  runMarker,
  type ProcessEntry,
} from './process-table.ts';

/** State of a run on disk, which finds its session after a crash, even without a leader. */
const runFileSchema = z.object({ pid: z.int(), startTicks: z.int(), bootId: z.string() });

/** Maximum wait for output after a run, whose pipe an escaped process may keep open. */
const drainMs = 1000;
const recoverTimeoutMs = 30_000;

const signalNumbers: Readonly<Record<string, number>> = constants.signals;

interface Options extends Pick<Runtime, 'clock' | 'logger'> {
  readonly nodeId: string;
  readonly runsDir: string;
}

/**
 * Runs processes of this machine, each in a session of its own. A run consists of the processes of
 * its session and of those that carry its marker in their environment. A process that both starts
 * another session and clears its environment escapes.
 */
export class LocalRunner implements ProcessRunner {
  readonly #options: Options;
  readonly #bootId: string;
  readonly #table: ProcessTable;

  constructor(options: Options) {
    this.#options = options;
    this.#table = new ProcessTable({ clock: options.clock });
    this.#bootId = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    mkdirSync(options.runsDir, { recursive: true, mode: 0o700 });
  }

  async recover(): Promise<void> {
    const sessions = this.#recordedSessions();
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
        const isOwn = entry.node === this.#options.nodeId || this.#isRecorded(sessions, entry);
        if (!isOwn) return false;
        left.add(entry.pid);
        // The session may contain processes that have cleared their environment. Session 0 was
        // started outside of this pid namespace.
        if (entry.session !== 0 && entry.session !== ownSession && !sessions.has(entry.session))
          sessions.set(entry.session, 0);
        return true;
      }, timeout.signal)
      .finally(() => timer.cancel());
    if (left.size > 0)
      this.#options.logger.info('Ended processes that an earlier run had left', {
        count: left.size,
      });
    for (const file of readdirSync(this.#options.runsDir))
      rmSync(join(this.#options.runsDir, file), { force: true });
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
    if (pid !== undefined) this.#record(request.runId, pid);
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
      done: () => this.#forget(request.runId),
    });
  }

  async close(): Promise<void> {
    await this.#table.killAll((entry) => entry.node === this.#options.nodeId);
  }

  #record(runId: string, pid: number): void {
    const startTicks = readProcess(pid)?.startTicks;
    if (startTicks === undefined) return;
    try {
      writeFileSync(
        join(this.#options.runsDir, runId),
        JSON.stringify({ pid, startTicks, bootId: this.#bootId }),
        { mode: 0o600 },
      );
    } catch (error) {
      // Only recovery after a crash needs the record, and the markers find nearly all processes
      // without it.
      this.#options.logger.warn('A run could not be recorded', { error, pid });
    }
  }

  #forget(runId: string): void {
    rmSync(join(this.#options.runsDir, runId), { force: true });
  }

  #recordedSessions(): Map<number, number> {
    const sessions = new Map<number, number>();
    for (const file of readdirSync(this.#options.runsDir)) {
      const run = this.#read(join(this.#options.runsDir, file));
      if (run === undefined || run.bootId !== this.#bootId) continue;
      // The kernel does not reuse a pid that still names a session, so another process with this
      // pid means that the session is over.
      const leader = readProcess(run.pid);
      if (leader !== undefined && leader.startTicks !== run.startTicks) continue;
      sessions.set(run.pid, run.startTicks);
    }
    return sessions;
  }

  #read(path: string): z.infer<typeof runFileSchema> | undefined {
    try {
      return runFileSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
    } catch (error) {
      this.#options.logger.warn('The record of a run could not be read', { error, path });
      return undefined;
    }
  }

  #isRecorded(
    sessions: ReadonlyMap<number, number>,
    { session, startTicks }: ProcessEntry,
  ): boolean {
    const since = sessions.get(session);
    return since !== undefined && startTicks >= since;
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
    readonly done: () => void;
  }) {
    const { child, pid, request, table, clock, done } = options;
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
      done();
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
    // The stream was destroyed because another process held the pipe open; the data read so far are
    // complete.
  }
}
