import type { Random } from './random.ts';

/** The chance of each kind of fault at this moment; 0 everywhere means no faults. */
export interface FaultChances {
  /** A message takes up to seconds instead of milliseconds. */
  slow: number;
  /** A request is lost on its way. */
  lostRequest: number;
  /** A request is executed, its answer is lost. */
  lostAnswer: number;
  /** The connection breaks in the middle of an answer. */
  halfAnswer: number;
  /** A request is executed seconds late, but within the deadline of a leader's writes. */
  late: number;
  /** A request waits for a free connection. */
  queued: number;
  tooManyRequests: number;
  unavailable: number;
  /** 500, whether it was executed or not. */
  internalError: number;
  /** A stream of a watch is closed, falls silent, or lags behind. */
  watchClosed: number;
  watchSilent: number;
  watchLag: number;
  /** Calls to agents fail. */
  agentLost: number;
  agentAnswerLost: number;
  agentFailure: number;
  agentSlow: number;
  /** The agent runs as many conversations as it may. */
  agentFull: number;
  /** A write's connection is reset at once, but the write is executed seconds later. */
  lateExecution: number;
  /** A list that is asked for page by page takes so long that its continue token has expired. */
  expiredToken: number;
}

export const noFaults: Readonly<FaultChances> = {
  slow: 0,
  lostRequest: 0,
  lostAnswer: 0,
  halfAnswer: 0,
  late: 0,
  queued: 0,
  tooManyRequests: 0,
  unavailable: 0,
  internalError: 0,
  watchClosed: 0,
  watchSilent: 0,
  watchLag: 0,
  agentLost: 0,
  agentAnswerLost: 0,
  agentFailure: 0,
  agentSlow: 0,
  agentFull: 0,
  lateExecution: 0,
  expiredToken: 0,
};

/** Faults that lose nothing, but delay all knowledge of what has been done. */
export const delayedKnowledge: Readonly<FaultChances> = {
  ...noFaults,
  late: 0.1,
  lostAnswer: 0.1,
  internalError: 0.1,
  queued: 0.1,
  watchLag: 0.6,
};

const worst: Readonly<Omit<FaultChances, 'lateExecution' | 'expiredToken'>> = {
  slow: 0.1,
  lostRequest: 0.06,
  lostAnswer: 0.06,
  halfAnswer: 0.04,
  late: 0.06,
  queued: 0.06,
  tooManyRequests: 0.1,
  unavailable: 0.06,
  internalError: 0.06,
  watchClosed: 0.7,
  watchSilent: 0.3,
  watchLag: 0.4,
  agentLost: 0.08,
  agentAnswerLost: 0.08,
  agentFailure: 0.08,
  agentSlow: 0.1,
  agentFull: 0.2,
};

/** Each seed has some kinds of faults: all at once would hide what two of them do together. */
export function someFaults(random: Random): FaultChances {
  const chances = { ...noFaults };
  for (const kind of Object.keys(worst) as (keyof typeof worst)[])
    if (random.chance(0.35)) chances[kind] = worst[kind] * random.next();
  return chances;
}

/** A network's state, which changes while it is in use. */
export class FaultSchedule {
  chances: Readonly<FaultChances> = noFaults;
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  /**
   * The faults of the next request of this name: its caller, its verb and its object. A request
   * more or less leaves the faults of all requests of other names as they are.
   */
  nextRequest(name: string): RequestFaults {
    return new RequestFaults(this, this.#random.nextOf(name));
  }
}

/** The faults that one request meets, by the chances of the moment. */
export class RequestFaults {
  readonly #schedule: Pick<FaultSchedule, 'chances'>;
  readonly #random: Random;

  constructor(schedule: Pick<FaultSchedule, 'chances'>, random: Random) {
    this.#schedule = schedule;
    this.#random = random;
  }

  /** Whether a fault of the kind has a chance at the moment. */
  mayHappen(kind: keyof FaultChances): boolean {
    return this.#schedule.chances[kind] > 0;
  }

  happens(kind: keyof FaultChances): boolean {
    const chance = this.#schedule.chances[kind];
    return chance > 0 && this.#random.chance(chance);
  }

  /** The faults of the next line of this name, in a stream that the request has opened. */
  nextLine(name: string): RequestFaults {
    return new RequestFaults(this.#schedule, this.#random.nextOf(name));
  }

  transitMs(): number {
    return this.happens('slow') ? this.#random.between(50, 4_000) : this.#random.between(0.2, 4);
  }

  between(low: number, high: number): number {
    return this.#random.between(low, high);
  }
}
