import type { Clock } from './clock.ts';

/** Until when writes that were sent may still be executed by the API server. */
export class WriteLedger {
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  #inFlight = 0;
  #inFlightUntil = Number.NEGATIVE_INFINITY;
  #unknownUntil = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, deadlineMs: number) {
    this.#clock = clock;
    this.#deadlineMs = deadlineMs;
  }

  /** Notes a write that is about to be sent. What is returned is called once, with whether its outcome has become known. */
  begin(): (known: boolean) => void {
    const until = this.#clock.monotonic() + this.#deadlineMs;
    this.#inFlight++;
    this.#inFlightUntil = until;
    return (known) => {
      this.#inFlight--;
      if (!known) this.#unknownUntil = Math.max(this.#unknownUntil, until);
    };
  }

  /** By the monotonic clock; in the past when nothing is under way. */
  get settledAt(): number {
    return this.#inFlight > 0 ? Math.max(this.#inFlightUntil, this.#unknownUntil) : this.#unknownUntil;
  }
}
