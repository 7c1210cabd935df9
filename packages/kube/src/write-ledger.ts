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

  /**
   * Notes a write that begins. `sent` is called each time that it is handed to a connection, for which it may have had to wait:
   * the server's time counts from there. `ended` is called once, with whether its outcome has become known.
   */
  begin(): { readonly sent: () => void; readonly ended: (known: boolean) => void } {
    let until = 0;
    const sent = () => {
      until = this.#clock.monotonic() + this.#deadlineMs;
      this.#inFlightUntil = until;
    };
    const ended = (known: boolean) => {
      this.#inFlight--;
      if (!known) this.#unknownUntil = Math.max(this.#unknownUntil, until);
    };
    this.#inFlight++;
    sent();
    return { sent, ended };
  }

  /** By the monotonic clock; in the past when nothing is under way. */
  get settledAt(): number {
    return this.#inFlight > 0 ? Math.max(this.#inFlightUntil, this.#unknownUntil) : this.#unknownUntil;
  }
}
