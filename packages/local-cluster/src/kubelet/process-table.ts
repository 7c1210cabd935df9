import { readFileSync, readdirSync } from 'node:fs';
import { sleep, type Clock } from '@conversation-operator/kube/clock';

/** Every process that a node starts carries the node's id, and its run's, under these names. */
export const nodeMarker = 'CONVERSATION_OPERATOR_NODE';
export const runMarker = 'CONVERSATION_OPERATOR_RUN';

export interface ProcessEntry {
  readonly pid: number;
  /** The session, which is the pid of the process that began it. */
  readonly session: number;
  /** Clock ticks since boot: tells two processes apart that had the same pid. */
  readonly startTicks: number;
  readonly node: string | undefined;
  readonly run: string | undefined;
}

/** `/proc/<pid>/stat`: the name in parentheses may hold anything, so fields are counted from its end (proc(5)). */
export function parseStat(text: string): { readonly state: string; readonly session: number; readonly startTicks: number } | undefined {
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, session, startTicks] = [fields[0], Number(fields[3]), Number(fields[19])];
  return state === undefined || !Number.isInteger(session) || !Number.isInteger(startTicks) ? undefined : { state, session, startTicks };
}

const readProc = (path: string): string | undefined => {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    // Gone in the meantime, or somebody else's.
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

/** The process as it is now; undefined when there is none, or only its remains (a zombie). */
export function readProcess(pid: number): ProcessEntry | undefined {
  const stat = parseStat(readProc(`/proc/${pid}/stat`) ?? '');
  if (stat === undefined || stat.state === 'Z' || stat.state === 'X') return undefined;
  const environ = `\0${readProc(`/proc/${pid}/environ`) ?? ''}`;
  const { session, startTicks } = stat;
  return { pid, session, startTicks, node: valueOf(environ, nodeMarker), run: valueOf(environ, runMarker) };
}

const processIds = (): readonly number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid !== process.pid);

interface Hunt {
  readonly matches: (entry: ProcessEntry) => boolean;
  readonly done: () => void;
  emptyPasses: number;
}

const pauseMs = 20;
const chunkSize = 64;

/**
 * Ends processes by what they are, not by a pid seen earlier: each is looked at and killed in the same turn, so that a pid that has
 * gone to somebody else is safe. Hunts that run at the same time share their passes over /proc.
 */
export class ProcessTable {
  readonly #clock: Clock;
  readonly #hunts = new Set<Hunt>();
  #running = false;

  constructor(options: { readonly clock: Clock }) {
    this.#clock = options.clock;
  }

  /**
   * SIGKILL to every process that matches, again and again until two passes in a row have found none. Rejects with the signal's
   * reason when that is aborted first.
   */
  killAll(matches: (entry: ProcessEntry) => boolean, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const hunt: Hunt = { matches, done: resolve, emptyPasses: 0 };
      this.#hunts.add(hunt);
      signal?.addEventListener('abort', () => {
        if (this.#hunts.delete(hunt)) reject(signal.reason as Error);
      });
      if (!this.#running) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#running = true;
    while (this.#hunts.size > 0) {
      const hunts = [...this.#hunts];
      const found = await this.#pass(hunts);
      for (const hunt of hunts) {
        // One pass may miss a child born during it to a parent that ended during it.
        hunt.emptyPasses = found.has(hunt) ? 0 : hunt.emptyPasses + 1;
        if (hunt.emptyPasses < 2) continue;
        this.#hunts.delete(hunt);
        hunt.done();
      }
      if (found.size > 0) await sleep(this.#clock, pauseMs);
    }
    this.#running = false;
  }

  async #pass(hunts: readonly Hunt[]): Promise<ReadonlySet<Hunt>> {
    const found = new Set<Hunt>();
    let looked = 0;
    for (const pid of processIds()) {
      const entry = readProcess(pid);
      const hunters = entry === undefined ? [] : hunts.filter(({ matches }) => matches(entry));
      if (hunters.length > 0 && this.#kill(pid)) hunters.forEach((hunt) => found.add(hunt));
      looked += 1;
      if (looked % chunkSize === 0) await new Promise<void>((resolve) => setImmediate(resolve));
    }
    return found;
  }

  /** Whether another pass has to look for it again. */
  #kill(pid: number): boolean {
    try {
      process.kill(pid, 'SIGKILL');
      return true;
    } catch (error) {
      // EPERM: it has become another user's (setuid) and is out of reach for good. Anything else: it is gone already.
      return !(error instanceof Error && 'code' in error && error.code === 'EPERM');
    }
  }
}
