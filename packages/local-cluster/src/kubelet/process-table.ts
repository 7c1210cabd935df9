import { readFileSync, readdirSync } from 'node:fs';
import { sleep, type Clock } from '@conversation-operator/base/clock';

/** Environment variables of every process of a node: the ids of the node and the run. */
export const nodeMarker = 'CONVERSATION_OPERATOR_NODE';
export const runMarker = 'CONVERSATION_OPERATOR_RUN';

export interface ProcessEntry {
  readonly pid: number;
  /** Session id, which is the pid of the process that started the session. */
  readonly session: number;
  /** Start time in clock ticks since boot, which distinguishes two processes with the same pid. */
  readonly startTicks: number;
  readonly node: string | undefined;
  readonly run: string | undefined;
}

/** Parses `/proc/<pid>/stat` from the end of the name, which may hold any character (proc(5)). */
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

/** Returns the current process of a pid; undefined when there is none or only a zombie. */
export function readProcess(pid: number): ProcessEntry | undefined {
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
 * Processes in the order in which they started, so that a parent comes before its children, which
 * may have lower pids: a shell whose child ends first continues with its next command.
 */
export const parentsFirst = (entries: readonly ProcessEntry[]): readonly ProcessEntry[] =>
  entries.toSorted((one, other) => one.startTicks - other.startTicks || one.pid - other.pid);

const pauseMs = 20;
const chunkSize = 64;

/**
 * Kills processes by their properties rather than by an earlier pid: each process is read again and
 * killed in the same turn of the event loop, so that another process that has received the pid is
 * safe. Concurrent calls share their passes over /proc.
 */
export class ProcessTable {
  readonly #clock: Clock;
  readonly #requests = new Set<KillRequest>();
  #running = false;

  constructor(options: { readonly clock: Clock }) {
    this.#clock = options.clock;
  }

  /**
   * Sends SIGKILL to every matching process until two consecutive passes find none. Rejects with
   * the reason of the signal when the signal is aborted first.
   */
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
        // One pass may miss a child that is created during the pass by a parent that ends during
        // the pass.
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

  /** Returns whether the next pass has to check the process again. */
  #kill(pid: number): boolean {
    try {
      process.kill(pid, 'SIGKILL');
      return true;
    } catch (error) {
      // EPERM means that the process has changed its user (setuid) and cannot be killed. Any other
      // error means that the process has ended.
      return !(error instanceof Error && 'code' in error && error.code === 'EPERM');
    }
  }
}
