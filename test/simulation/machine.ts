import type { Clock, Timer } from '@conversation-operator/base/clock';
import type { Scheduler } from './scheduler.ts';

/** Maximum time between a decision of a process that is not frozen and the request for it. */
const decisionMs = 1_000;

/**
 * One run of a process: its clock, and the gate that everything from outside comes in by. Frozen,
 * as by SIGSTOP, it gets nothing until it continues; crashed, it gets nothing any more, and its
 * memory is never read again.
 */
export class Machine {
  readonly name: string;
  readonly clock: Clock;
  readonly #scheduler: Scheduler;
  readonly #waiting: (() => void)[] = [];
  readonly #endings = new Set<() => void>();
  #state: 'running' | 'frozen' | 'dead' = 'running';
  /** The last time for which the process was frozen. */
  #freeze = { from: 0, to: Number.NEGATIVE_INFINITY };
  #wallOffsetMs = 0;
  /** When its wall clock was moved last, in milliseconds of the simulation. */
  clockMovedAt = Number.NEGATIVE_INFINITY;

  readonly #minDelayMs: number;

  /** `minDelayMs`: no timer is shorter; 1 in Node. Default 0. */
  constructor(name: string, scheduler: Scheduler, minDelayMs = 0) {
    this.name = name;
    this.#scheduler = scheduler;
    this.#minDelayMs = minDelayMs;
    this.clock = {
      now: () => scheduler.now() + this.#wallOffsetMs,
      // The monotonic clock continues while the process is frozen, as CLOCK_MONOTONIC does.
      monotonic: () => scheduler.monotonic(),
      after: (delayMs, callback) => this.#after(delayMs, callback),
    };
  }

  get alive(): boolean {
    return this.#state !== 'dead';
  }

  get frozen(): boolean {
    return this.#state === 'frozen';
  }

  /** The earliest time at which the process can have decided on a request that it makes now. */
  get decidedSince(): number {
    const since = this.#scheduler.monotonic() - decisionMs;
    return this.#freeze.to < since ? since : this.#freeze.from - decisionMs;
  }

  /** Hands something to the process: now, when it continues, or never. */
  deliver(work: () => void): void {
    if (this.#state === 'running') work();
    else if (this.#state === 'frozen') this.#waiting.push(work);
  }

  freeze(): void {
    if (this.#state !== 'running') return;
    this.#state = 'frozen';
    this.#freeze = { from: this.#scheduler.monotonic(), to: Infinity };
  }

  thaw(): void {
    if (this.#state !== 'frozen') return;
    this.#state = 'running';
    this.#freeze.to = this.#scheduler.monotonic();
    // One after the other, each with its consequences, as the event loop would take them.
    for (const work of this.#waiting.splice(0)) this.#scheduler.after(0, () => this.deliver(work));
  }

  crash(): void {
    this.#state = 'dead';
    this.#waiting.length = 0;
    for (const ending of this.#endings) ending();
    this.#endings.clear();
  }

  /** Called when the process dies; its connections end then. Returns the remover. */
  onDeath(ending: () => void): () => void {
    this.#endings.add(ending);
    return () => this.#endings.delete(ending);
  }

  /** Moves the wall clock, as NTP or a person does. */
  jumpWallClock(byMs: number): void {
    this.#wallOffsetMs += byMs;
    this.clockMovedAt = this.#scheduler.monotonic();
  }

  #after(delayMs: number, callback: () => void): Timer {
    let cancelled = false;
    const timer = this.#scheduler.after(Math.max(this.#minDelayMs, delayMs), () =>
      this.deliver(() => {
        if (!cancelled) callback();
      }),
    );
    return {
      cancel: () => {
        cancelled = true;
        timer.cancel();
      },
    };
  }
}
