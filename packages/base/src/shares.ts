import type { Clock } from './clock.ts';

/** Holder of units: an owner, and the sandbox that the work calls, if any. */
export interface Holder {
  readonly owner: string;
  readonly sandbox?: string | undefined;
}

export type Bound = 'total' | 'owner' | 'sandbox';

export interface SharesOptions {
  readonly total: number;
  /** Maximum units of one owner, less than `total`, so that one owner never takes all units. */
  readonly perOwner: number;
  /** Maximum units for one sandbox; default unlimited. */
  readonly perSandbox?: number;
  readonly refuse: (bound: Bound) => Error;
  /** Maximum duration and number of waiting calls. Absent: `wait` rejects if no unit is free. */
  readonly waiting?: {
    readonly clock: Clock;
    readonly maxMs: number;
    readonly total: number;
    readonly perOwner: number;
  };
}

interface Waiter {
  readonly holder: Holder;
  readonly units: number;
  readonly enter: () => void;
}

/** Releases the units. A second call has no effect. */
export type Release = () => void;

/**
 * A semaphore with a limit for each owner and each sandbox, so that slow work and unresponsive
 * agents take no units of others. Waiting calls enter round robin by owner. Calls of one owner
 * enter in the order of arrival, but a call for a sandbox at its limit does not delay the others.
 * Owners that neither hold units nor wait use no memory.
 */
export class Shares {
  readonly #options: SharesOptions;
  readonly #byOwner = new Map<string, number>();
  readonly #bySandbox = new Map<string, number>();
  /** Waiters by owner. The first owner of the map is served first. */
  readonly #waiting = new Map<string, Set<Waiter>>();
  #inUse = 0;
  #waiters = 0;

  constructor(options: SharesOptions) {
    this.#options = options;
  }

  get inUse(): number {
    return this.#inUse;
  }

  get total(): number {
    return this.#options.total;
  }

  refusal(bound: Bound): Error {
    return this.#options.refuse(bound);
  }

  get waiting(): number {
    return this.#waiters;
  }

  /** Number of entries for owners and sandboxes that hold units or wait. */
  get size(): number {
    return this.#byOwner.size + this.#bySandbox.size + this.#waiting.size;
  }

  of(owner: string): number {
    return this.#byOwner.get(owner) ?? 0;
  }

  hasRoom(holder: Holder, units = 1): boolean {
    return this.#boundFor(holder, units) === undefined;
  }

  /** Acquires units at once, or throws the error of `refuse`. */
  take(holder: Holder, units = 1): Release {
    const bound = this.#boundFor(holder, units);
    if (bound !== undefined) throw this.#options.refuse(bound);
    return this.#hold(holder, units);
  }

  /** Waits for units, at most `maxMs`. Rejects with the error of `refuse` or the abort reason. */
  async wait(
    holder: Holder,
    {
      units = 1,
      signal,
    }: { readonly units?: number; readonly signal?: AbortSignal | undefined } = {},
  ): Promise<Release> {
    const { waiting, refuse } = this.#options;
    signal?.throwIfAborted();
    const bound = this.#boundFor(holder, units) ?? (this.#isReserved ? 'total' : undefined);
    if (bound === undefined) return this.#hold(holder, units);
    const own = this.#waiting.get(holder.owner)?.size ?? 0;
    if (waiting === undefined || own >= waiting.perOwner || this.#waiters >= waiting.total)
      throw refuse(bound);
    return new Promise((resolve, reject) => {
      const leave = (error: Error) => {
        end();
        this.#remove(waiter);
        reject(error);
        // Other waiters may now take the units that were reserved for this waiter.
        this.#letIn();
      };
      const onAbort = () => leave(signal?.reason as Error);
      const end = () => {
        timer.cancel();
        signal?.removeEventListener('abort', onAbort);
      };
      const waiter: Waiter = {
        holder,
        units,
        enter: () => {
          end();
          resolve(this.#hold(holder, units));
        },
      };
      const timer = waiting.clock.after(waiting.maxMs, () =>
        leave(refuse(this.#boundFor(holder, units) ?? 'total')),
      );
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#add(waiter);
    });
  }

  #boundFor({ owner, sandbox }: Holder, units: number): Bound | undefined {
    const { total, perOwner, perSandbox = Infinity } = this.#options;
    if (sandbox !== undefined && (this.#bySandbox.get(sandbox) ?? 0) + units > perSandbox)
      return 'sandbox';
    if (this.of(owner) + units > perOwner) return 'owner';
    return this.#inUse + units > total ? 'total' : undefined;
  }

  #hold({ owner, sandbox }: Holder, units: number): Release {
    this.#count(owner, sandbox, units);
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#count(owner, sandbox, -units);
      this.#letIn();
    };
  }

  #count(owner: string, sandbox: string | undefined, units: number): void {
    this.#inUse += units;
    add(this.#byOwner, owner, units);
    if (sandbox !== undefined) add(this.#bySandbox, sandbox, units);
  }

  #letIn(): void {
    for (let next = this.#next(); next !== undefined && this.#fits(next); next = this.#next()) {
      const { owner } = next.holder;
      this.#remove(next);
      // The owner moves to the end of the map: all other owners are served before its next waiter.
      const others = this.#waiting.get(owner);
      if (others !== undefined && this.#waiting.delete(owner)) this.#waiting.set(owner, others);
      next.enter();
    }
  }

  /** Whether the free units are reserved for a waiter that needs more units than are free. */
  get #isReserved(): boolean {
    return this.#next() !== undefined;
  }

  /** First waiter below the limits of owner and sandbox. No call for fewer units overtakes it. */
  #next(): Waiter | undefined {
    if (this.#waiters === 0) return undefined;
    for (const waiters of this.#waiting.values()) {
      for (const waiter of waiters) {
        const bound = this.#boundFor(waiter.holder, waiter.units);
        if (bound === undefined || bound === 'total') return waiter;
        if (bound === 'owner') break;
      }
    }
    return undefined;
  }

  #fits({ holder, units }: Waiter): boolean {
    return this.#boundFor(holder, units) === undefined;
  }

  #add(waiter: Waiter): void {
    const { owner } = waiter.holder;
    const waiters = this.#waiting.get(owner) ?? new Set();
    this.#waiting.set(owner, waiters.add(waiter));
    this.#waiters += 1;
  }

  #remove(waiter: Waiter): void {
    const { owner } = waiter.holder;
    const waiters = this.#waiting.get(owner);
    if (waiters?.delete(waiter) !== true) return;
    this.#waiters -= 1;
    if (waiters.size === 0) this.#waiting.delete(owner);
  }
}

function add(counts: Map<string, number>, name: string, units: number): void {
  const count = (counts.get(name) ?? 0) + units;
  if (count === 0) counts.delete(name);
  else counts.set(name, count);
}
