import type { Clock } from '@conversation-operator/base/clock';

/** Tracks until when the API server may still execute writes that were sent. */
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
   * Records the start of a write. The client calls `sent` each time that it hands the write to a
   * connection, possibly after a wait: the deadline of the write counts from then. The client calls
   * `ended` once, and says whether the outcome is known.
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

  /**
   * Time on the monotonic clock after which the API server executes none of these writes; in the
   * past when no write is in flight.
   */
  get settledAt(): number {
    return this.#inFlight > 0
      ? Math.max(this.#inFlightUntil, this.#unknownUntil)
      : this.#unknownUntil;
  }
}
