import { Transform } from 'node:stream';
import type { Clock, Timer } from '@conversation-operator/base/clock';
import { ProblemError } from '../errors/problem-error.ts';
import { IdleTimer } from '@conversation-operator/http/proxy/idle-timer';

export interface TransferLimits {
  /** Maximum time without a byte from the host, or to the sandbox. */
  readonly idleMs: number;
  /** Maximum duration of one request. */
  readonly totalMs: number;
}

/** One request of a sandbox and the answer of a host, within limits of time. */
export class Transfer {
  /** Aborts when a limit is exceeded, or when the signal of the caller aborts. */
  readonly signal: AbortSignal;
  readonly #idle: IdleTimer;
  readonly #total: Timer;

  constructor(
    { idleMs, totalMs }: TransferLimits,
    { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
  ) {
    const late = new AbortController();
    this.signal = AbortSignal.any([signal, late.signal]);
    const onIdle = (): void => late.abort(new Error('nothing has moved for too long'));
    this.#idle = new IdleTimer({ clock, idleMs, onIdle });
    this.#total = clock.after(totalMs, () => late.abort(new Error('it has taken too long')));
  }

  /** A stream whose bytes count as progress. More bytes than the maximum are an error. */
  newStream(maxBytes = Number.POSITIVE_INFINITY): Transform {
    let bytes = 0;
    return new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        this.#idle.touch();
        bytes += chunk.length;
        if (bytes > maxBytes) done(new ProblemError('body-too-large', 'The request is too large.'));
        else done(null, chunk);
      },
    });
  }

  end(): void {
    this.#idle.stop();
    this.#total.cancel();
  }
}
