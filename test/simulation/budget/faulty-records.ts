import type {
  Account,
  RecordKey,
  RecordStore,
  StoredRecord,
  WriteOutcome,
} from '../../../src/budget/record-store.ts';
import type { VirtualClock } from '../../support/virtual-clock.ts';
import type { Random } from '../random.ts';
import type { Process } from './process.ts';

/** Probabilities of one request. */
export interface Chances {
  /** The request does not arrive. */
  lost: number;
  /** The request is executed, and its answer does not arrive. */
  answerLost: number;
  /** The request is executed after its caller has stopped to wait. */
  late: number;
  /** Another writer of the same record comes before a write. */
  otherWriter: number;
  /** The process is killed while the request is under way. */
  killed: number;
}

export const noFaults: Chances = { lost: 0, answerLost: 0, late: 0, otherWriter: 0, killed: 0 };

const timeoutMs = 3_000;

/** The records of the API server, behind a network that loses and delays requests and answers. */
export class FaultyRecords {
  readonly #clock: VirtualClock;
  readonly #random: Random;
  readonly #records = new Map<string, StoredRecord>();
  #versions = 0;
  /** Until then no request is answered. */
  awayUntilMs = -Infinity;
  chances: Chances = { ...noFaults };
  onWrite: (key: RecordKey, accounts: readonly Account[]) => void = () => undefined;
  onKill: (process: Process) => void = () => undefined;
  /** Number of writes that were applied. */
  writes = 0;
  requests = 0;

  constructor(clock: VirtualClock, random: Random) {
    this.#clock = clock;
    this.#random = random;
  }

  /** The stored accounts, without a network between. */
  accounts({ name }: RecordKey): readonly Account[] {
    return this.#records.get(name)?.accounts ?? [];
  }

  /** A write of somebody else, such as a raise. */
  change(key: RecordKey, change: (accounts: readonly Account[]) => readonly Account[]): void {
    this.#put(key, change(this.accounts(key)));
  }

  store(process: Process): RecordStore {
    const request = <T>(execute: () => T, failed: T) => this.#request(process, execute, failed);
    return {
      read: (key) =>
        request<Awaited<ReturnType<RecordStore['read']>>>(
          () => {
            const record = this.#records.get(key.name);
            return record === undefined ? { kind: 'missing' } : { kind: 'found', record };
          },
          { kind: 'unavailable' },
        ),
      create: (key) =>
        request<WriteOutcome>(
          () =>
            this.#records.has(key.name)
              ? { kind: 'conflict' }
              : { kind: 'done', record: this.#put(key, []) },
          { kind: 'unknown' },
        ),
      replace: (key, { version }, accounts) =>
        request<WriteOutcome>(() => this.#replace(key, version, accounts), { kind: 'unknown' }),
    };
  }

  #replace(key: RecordKey, version: string, accounts: readonly Account[]): WriteOutcome {
    if (this.#random.chance(this.chances.otherWriter)) this.change(key, (same) => same);
    const stored = this.#records.get(key.name);
    if (stored === undefined) return { kind: 'missing' };
    if (stored.version !== version) return { kind: 'conflict' };
    this.writes++;
    const record = this.#put(key, accounts);
    this.onWrite(key, accounts);
    return { kind: 'done', record };
  }

  #put({ name }: RecordKey, accounts: readonly Account[]): StoredRecord {
    const record = { version: String(++this.#versions), accounts };
    this.#records.set(name, record);
    return record;
  }

  #request<T>(process: Process, execute: () => T, failed: T): Promise<T> {
    const random = this.#random;
    this.requests++;
    return new Promise((resolve) => {
      const answer = (outcome: T, delayMs: number) =>
        void this.#clock.after(delayMs, () => process.run(() => resolve(outcome)));
      const { lost, answerLost, late, killed } = this.chances;
      const mayKill = () => {
        if (random.chance(killed)) this.onKill(process);
      };
      mayKill();
      const dice = random.next();
      const delayMs = random.chance(0.05) ? random.between(0, 1_500) : random.between(0.2, 15);
      if (dice < lost) return answer(failed, timeoutMs);
      const isLate = dice < lost + late;
      if (isLate) answer(failed, random.chance(0.5) ? timeoutMs : random.between(1, 20));
      this.#clock.after(isLate ? random.between(10, 20_000) : delayMs, () => {
        // A request that has arrived is executed even if nobody learns of it.
        const isAway = this.#clock.monotonic() < this.awayUntilMs;
        if (isAway && !random.chance(0.1)) {
          if (!isLate) answer(failed, random.between(0, timeoutMs));
          return;
        }
        const outcome = execute();
        mayKill();
        if (isLate) return;
        const isLost = isAway || dice < lost + late + answerLost;
        answer(isLost ? failed : outcome, isLost ? timeoutMs : random.between(0.2, 15));
      });
    });
  }
}
