import type { Clock } from './clock.ts';

/** Holder of units: an owner, and the sandbox whose agent the work calls, if any. */
export interface Holder {
  readonly owner: string;
  readonly sandbox?: string | undefined;
}

export type Bound = 'total' | 'owner' | 'sandbox';

export interface SharesOptions {
  readonly total: number;
  /** Maximum units of one owner: less than the total, so that other owners always find room. */
  readonly perOwner: number;
  /** Default unlimited. */
  readonly perSandbox?: number;
  readonly refuse: (bound: Bound) => Error;
  /** Maximum waiting time and waiters of `wait`. Absent: `wait` rejects when there is no room. */
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

/** Returns the units to the pool. A second call has no effect. */
export type Release = () => void;

/**
 * A semaphore with a share for each owner and each sandbox, so that slow work and silent agents
 * only fill their own share. Waiting work enters round robin by owner, and for one owner in the
 * order of arrival as far as its sandbox's limit permits. Keeps nothing about owners that neither
 * hold units nor wait.
 */
export class Shares {
  readonly #options: SharesOptions;
  readonly #byOwner = new Map<string, number>();
  readonly #bySandbox = new Map<string, number>();
  /** Waiters by owner, in the order of service. */
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

  /** Acquires units once there is room. Rejects by `refuse`, after `maxMs`, or with the signal. */
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
        // The room that was reserved for this waiter is free again.
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
      // The owner moves to the end: all other owners are served before its next waiter.
      const others = this.#waiting.get(owner);
      if (others !== undefined && this.#waiting.delete(owner)) this.#waiting.set(owner, others);
      next.enter();
    }
  }

  /** True while free room is reserved for a waiter that needs more than is free. */
  get #isReserved(): boolean {
    return this.#next() !== undefined;
  }

  /** The first waiter that no share excludes; none overtakes it, so small work starves no large. */
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
