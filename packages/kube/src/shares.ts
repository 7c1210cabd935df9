import type { Clock } from './clock.ts';

/** Whose work takes a place: an owner, and the sandbox whose agent is called for that work, where one is. */
export interface Holder {
  readonly owner: string;
  readonly sandbox?: string | undefined;
}

/** Which bound leaves no place. */
export type Bound = 'total' | 'owner' | 'sandbox';

export interface SharesOptions {
  /** Maximum units in use at once. */
  readonly total: number;
  /** Maximum units of one owner: less than the total, so that there is always room for others. */
  readonly perOwner: number;
  /** Maximum units for one sandbox; by default without limit. */
  readonly perSandbox?: number;
  /** Makes the error for work that gets no place. */
  readonly refuse: (bound: Bound) => Error;
  /** How long `wait` may wait, and how many may. Absent: `wait` refuses where there is no place. */
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

/** Gives a place back. Safe to call twice. */
export type Release = () => void;

/**
 * A pool that several owners use at once, with a share for each owner and each sandbox: an owner whose work is slow, or whose agent
 * does not answer, fills that share and no more. Work that waits is let in round robin by owner, within one owner first come first
 * served as far as the bound of its sandbox allows. Nothing is kept of owners that hold no place and wait for none.
 */
export class Shares {
  readonly #options: SharesOptions;
  readonly #byOwner = new Map<string, number>();
  readonly #bySandbox = new Map<string, number>();
  /** By owner, the one first whose turn is next. */
  readonly #waiting = new Map<string, Set<Waiter>>();
  #inUse = 0;
  #waiters = 0;

  constructor(options: SharesOptions) {
    this.#options = options;
  }

  /** Units in use. */
  get inUse(): number {
    return this.#inUse;
  }

  /** How many wait. */
  get waiting(): number {
    return this.#waiters;
  }

  /** How many owners and sandboxes hold something, or wait. */
  get size(): number {
    return this.#byOwner.size + this.#bySandbox.size + this.#waiting.size;
  }

  of(owner: string): number {
    return this.#byOwner.get(owner) ?? 0;
  }

  /** Whether so many units could be taken now. */
  hasRoom(holder: Holder, units = 1): boolean {
    return this.#boundFor(holder, units) === undefined;
  }

  /** Takes so many units at once, or throws what `refuse` makes. */
  take(holder: Holder, units = 1): Release {
    const bound = this.#boundFor(holder, units);
    if (bound !== undefined) throw this.#options.refuse(bound);
    return this.#hold(holder, units);
  }

  /** Takes so many units as soon as there are. Rejects with what `refuse` makes, also after `maxMs`, or with the signal's reason. */
  async wait(
    holder: Holder,
    { units = 1, signal }: { readonly units?: number; readonly signal?: AbortSignal | undefined } = {},
  ): Promise<Release> {
    const { waiting, refuse } = this.#options;
    signal?.throwIfAborted();
    const bound = this.#boundFor(holder, units) ?? (this.#isReserved ? 'total' : undefined);
    if (bound === undefined) return this.#hold(holder, units);
    const own = this.#waiting.get(holder.owner)?.size ?? 0;
    if (waiting === undefined || own >= waiting.perOwner || this.#waiters >= waiting.total) throw refuse(bound);
    return new Promise((resolve, reject) => {
      const leave = (error: Error) => {
        end();
        this.#remove(waiter);
        reject(error);
        // The room that was kept for it is free.
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
      const timer = waiting.clock.after(waiting.maxMs, () => leave(refuse(this.#boundFor(holder, units) ?? 'total')));
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#add(waiter);
    });
  }

  #boundFor({ owner, sandbox }: Holder, units: number): Bound | undefined {
    const { total, perOwner, perSandbox = Infinity } = this.#options;
    if (sandbox !== undefined && (this.#bySandbox.get(sandbox) ?? 0) + units > perSandbox) return 'sandbox';
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

  /** Until none that waits may enter. */
  #letIn(): void {
    for (let next = this.#next(); next !== undefined && this.#fits(next); next = this.#next()) {
      const { owner } = next.holder;
      this.#remove(next);
      // Behind the others: each has a turn before this owner's next one.
      const others = this.#waiting.get(owner);
      if (others !== undefined && this.#waiting.delete(owner)) this.#waiting.set(owner, others);
      next.enter();
    }
  }

  /** Room that is free is kept for a waiter that needs more than there is. */
  get #isReserved(): boolean {
    return this.#next() !== undefined;
  }

  /** The first that no share keeps out. Nobody overtakes it, so that small work does not keep large work waiting for ever. */
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
