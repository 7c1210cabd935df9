import { silentLogger } from '@conversation-operator/base/logger';
import { availableOf, committedOf, spentOf } from '../../../src/budget/account.ts';
import {
  BudgetLedger,
  type Amount,
  type Budget,
  type Exhausted,
  type Reservation,
} from '../../../src/budget/ledger.ts';
import { accountKey, Periods } from '../../../src/budget/period.ts';
import type { RecordKey } from '../../../src/budget/record-store.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { Random } from '../random.ts';
import { FaultyRecords, noFaults } from './faulty-records.ts';
import { Process } from './process.ts';

export class BrokenPromise extends Error {
  readonly rule: string;

  constructor(rule: string, message: string) {
    super(`${rule}: ${message}`);
    this.rule = rule;
  }
}

/** A budget as people have set it. Replicas learn of a change late. */
interface SetBudget {
  readonly record: RecordKey;
  readonly name: string;
  readonly unit: Budget['unit'];
  /** Without a period: a budget of a conversation. */
  readonly hasPeriod: boolean;
  limit: number;
  /** The highest limit that ever was. */
  highest: number;
  /** The limit that some replicas still see. */
  earlier: number;
  /** Limits before these, and when the last call could begin with each. */
  readonly past: { readonly limit: number; readonly untilMs: number }[];
}

interface Replica {
  readonly process: Process;
  readonly ledger: BudgetLedger;
  calls: number;
  isClosing: boolean;
}

interface Caller {
  readonly owner: string;
  readonly budgets: readonly SetBudget[];
}

export interface ModelOutcome {
  readonly calls: number;
  readonly refused: number;
  readonly writes: number;
  readonly requests: number;
  readonly kills: number;
  /** 1 where all that was charged has to be found in the records exactly, else 0. */
  readonly exact: number;
  /** Charges of the provider by account. */
  readonly charged: Readonly<Record<string, number>>;
}

const cent = 10_000_000;
const namespace = 'default';
const maxReserveMs = 3 * 6_000 + 3_000;
/** The time that `close` may take, and that of a request under way. */
const maxCloseMs = 10_000 + 3_000;

/**
 * Runs replicas that make calls within budgets, against an API server whose answers are late, lost
 * and unknown: replicas are killed between any two requests, and sleep for longer than their share
 * lasts. The charges of the provider are the truth. The seed determines the run.
 */
export async function runBudgets(seed: number): Promise<ModelOutcome> {
  const model = new Model(new Random(`budgets ${seed}`));
  try {
    return await model.play();
  } catch (error) {
    throw new Error(`seed ${seed}: ${String(error)}\n${model.lines.slice(-60).join('\n')}`, {
      cause: error,
    });
  }
}

class Model {
  readonly lines: string[] = [];
  readonly #random: Random;
  // The day ends within the run.
  readonly #clock: VirtualClock;
  readonly #records: FaultyRecords;
  readonly #periods = new Periods();
  #replicas: Replica[] = [];
  readonly #processes: Process[] = [];
  #callers: readonly Caller[] = [];
  #budgets: readonly SetBudget[] = [];
  readonly #charged = new Map<string, number>();
  /** Spent amounts that the records have shown. */
  readonly #spent = new Map<string, number>();
  readonly #raised = new Map<string, number>();
  readonly #started = new Map<string, Budget>();
  #serial = 0;
  #calls = 0;
  #refused = 0;
  #kills = 0;
  #isOver = false;
  /** Whether each amount has to be found in the records exactly. */
  #isExact = true;
  #broken: BrokenPromise | undefined;

  constructor(random: Random) {
    this.#random = random;
    this.#clock = new VirtualClock(Date.UTC(2030, 0, 31, 23, 60 - random.whole(1, 4)));
    this.#records = new FaultyRecords(this.#clock, random.fork('records'));
    this.#records.onWrite = (key) => this.#checkWrite(key);
    this.#records.onKill = (process) => this.#kill(process);
  }

  async play(): Promise<ModelOutcome> {
    const random = this.#random;
    this.#setUp();
    const chance = (max: number) => (random.chance(0.5) ? random.between(0, max) : 0);
    this.#records.chances = {
      lost: chance(0.1),
      answerLost: chance(0.1),
      late: chance(0.1),
      otherWriter: chance(0.2),
      killed: random.chance(0.4) ? (random.pick([0.002, 0.005, 0.02]) ?? 0) : 0,
    };
    const mayPause = random.chance(0.25);
    const mayBeAway = random.chance(0.4);
    const mayClose = random.chance(0.3);
    const mayChange = random.chance(0.5);
    for (let turn = random.whole(20, 45); turn > 0; turn--) {
      await this.#advance(random.between(500, 4_000));
      const dice = random.next();
      if (dice < 0.04 && mayPause) this.#pause();
      else if (dice < 0.1 && mayBeAway) this.#goAway();
      else if (dice < 0.15 && mayClose) this.#closeOne();
      else if (dice < 0.3 && mayChange) this.#changeLimit();
      else if (dice < 0.36 && mayChange) this.#raise();
      else if (dice < 0.4 && this.#records.chances.killed > 0)
        this.#kill(random.pick(this.#replicas)?.process);
    }
    await this.#end();
    return {
      calls: this.#calls,
      refused: this.#refused,
      writes: this.#records.writes,
      requests: this.#records.requests,
      kills: this.#kills,
      exact: this.#isExact ? 1 : 0,
      charged: Object.fromEntries(this.#charged),
    };
  }

  #setUp(): void {
    const random = this.#random;
    const owners = random.whole(1, 5);
    const shared = random.chance(0.7) ? [this.#budget('usage-2030', 'Namespace', 'USD')] : [];
    if (random.chance(0.2)) shared.push(this.#budget('usage-2030', 'Namespace', 'Tokens'));
    this.#callers = Array.from({ length: owners }, (_, index) => {
      const owner = `owner-${index}`;
      const own =
        shared.length === 0 || random.chance(0.7)
          ? [this.#budget(`usage-${owner}`, 'Owner', 'USD')]
          : [];
      return Array.from({ length: random.whole(1, 2) }, (__, number) => ({
        owner,
        budgets: random.chance(0.4)
          ? [...shared, ...own, this.#budget(`usage-${owner}-${number}`, 'Conversation', 'USD')]
          : [...shared, ...own],
      }));
    }).flat();
    this.#budgets = [...new Set(this.#callers.flatMap(({ budgets }) => budgets))];
    for (let count = random.whole(1, 4); count > 0; count--) this.#start();
    for (const caller of this.#callers) this.#keepCalling(caller);
  }

  #budget(record: string, scope: RecordKey['spec']['scope'], unit: Budget['unit']): SetBudget {
    const max = { Namespace: 400, Owner: 150, Conversation: 100 }[scope];
    const limit = this.#random.whole(5, max) * (unit === 'USD' ? cent : 10_000);
    return {
      record: { namespace, name: record, spec: { scope } },
      name: scope.toLowerCase(),
      unit,
      hasPeriod: scope !== 'Conversation',
      limit,
      highest: limit,
      earlier: limit,
      past: [],
    };
  }

  #start(): Replica {
    const random = this.#random;
    const name = `replica-${this.#serial++}`;
    const process = new Process(name, this.#clock, random.between(-60_000, 60_000));
    const ledger = new BudgetLedger({
      store: this.#records.store(process),
      replica: name,
      clock: process,
      random: random.fork(name).next,
      logger: silentLogger,
      onExcess: () => this.#break('no call costs more than it has reserved', name),
    });
    const replica = { process, ledger, calls: 0, isClosing: false };
    this.#processes.push(process);
    this.#replicas.push(replica);
    return replica;
  }

  #keepCalling(caller: Caller): void {
    if (this.#isOver) return;
    const random = this.#random;
    const isBurst = random.chance(0.1);
    this.#clock.after(isBurst ? random.between(0, 50) : random.between(300, 6_000), () => {
      const ready = this.#replicas.filter(({ isClosing }) => !isClosing);
      const replica = random.pick(ready);
      if (replica !== undefined && !this.#isOver) this.#call(replica, caller);
      this.#keepCalling(caller);
    });
  }

  /** The budgets of a call as a replica sees them. */
  #seenBy({ process }: Replica, { budgets }: Caller): readonly Budget[] {
    return budgets.map((budget) => {
      const limit = this.#random.chance(0.8) ? budget.limit : budget.earlier;
      const period = this.#periods.around('Day', 'UTC', process.now());
      const account = budget.hasPeriod ? accountKey(budget.name, period, budget.unit) : budget.name;
      const { record, unit } = budget;
      const seen = { record, account, unit, limit };
      this.#started.set(`${record.name} ${account}`, seen);
      return seen;
    });
  }

  #call(replica: Replica, caller: Caller): void {
    const random = this.#random;
    const { process, ledger } = replica;
    const nanos = Math.ceil(random.between(0.2, random.chance(0.05) ? 30 : 2) * cent);
    const want = { nanos, tokens: Math.ceil(nanos / 1_000) };
    const share = random.chance(0.5) ? 1 : random.between(0.1, 1);
    const least = { nanos: Math.ceil(nanos * share), tokens: Math.ceil(want.tokens * share) };
    const abort = new AbortController();
    process.run(() => {
      const budgets = this.#seenBy(replica, caller);
      replica.calls++;
      const beganMs = this.#clock.monotonic();
      let wasPaused = false;
      const watchdog = this.#clock.after(maxReserveMs, () => {
        wasPaused = process.isPaused || this.#pausedMs > beganMs;
        if (!process.isDead && !wasPaused)
          this.#break('each call is decided within a bounded time', process.name);
      });
      const patience = random.chance(0.05)
        ? process.after(random.between(0, 4_000), () => abort.abort(new Error('left')))
        : undefined;
      const decided = () => {
        watchdog.cancel();
        patience?.cancel();
      };
      ledger.reserve({ owner: caller.owner, budgets, want, least, signal: abort.signal }).then(
        (outcome) => {
          decided();
          if (process.isDead) return;
          if ('reason' in outcome) this.#refuse(replica, outcome, least);
          else this.#make(replica, budgets, outcome, want, least);
        },
        (error: unknown) => {
          decided();
          replica.calls--;
          if (!abort.signal.aborted) this.#break('no call fails', String(error));
        },
      );
    });
  }

  #refuse(replica: Replica, { budget, reason }: Exhausted, least: Amount): void {
    replica.calls--;
    this.#refused++;
    this.#checkRefusal(budget, reason, least);
    this.#note(`${replica.process.name} refuses ${budget.record.name}: ${reason}`);
  }

  #checkRefusal(
    { record, account: key, unit, limit }: Budget,
    reason: string,
    least: Amount,
  ): void {
    const set = this.#budgets.find((one) => one.record.name === record.name && one.unit === unit);
    const account = this.#records.accounts(record).find((one) => one.key === key);
    const isStill = this.#clock.monotonic() - this.#records.changedMs(record) > 3_000;
    if (reason !== 'exhausted' || !isStill || account === undefined || set === undefined) return;
    // An account has one limit, which is that of the call that has begun last.
    const past = set.past.filter(({ untilMs }) => this.#clock.monotonic() - untilMs < maxReserveMs);
    const limits = [set.limit, set.earlier, limit, ...past.map((known) => known.limit)];
    const left = availableOf(account, Math.min(...limits));
    if (left >= (unit === 'USD' ? least.nanos : least.tokens))
      this.#break('no call is refused for which enough is left', `${record.name}: ${left}`);
  }

  /** Sends the call. The provider charges when it comes to it, whatever has happened to the replica. */
  #make(
    replica: Replica,
    budgets: readonly Budget[],
    reservation: Reservation,
    want: Amount,
    least: Amount,
  ): void {
    const random = this.#random;
    const { process } = replica;
    const { granted } = reservation;
    const settle = (spent: Amount) => reservation.settle(spent);
    const release = () => reservation.release();
    const isFair = (field: keyof Amount) =>
      granted[field] >= least[field] && granted[field] <= want[field];
    if (!isFair('nanos') || !isFair('tokens'))
      this.#break('a call is granted from the least to what it wants', JSON.stringify(granted));
    const end = (work: () => void) =>
      process.run(() => {
        replica.calls--;
        work();
        // A second call of either has no effect.
        if (random.chance(0.1)) random.pick([release, () => settle(granted)])?.();
      });
    if (random.chance(0.05)) {
      end(release);
      return;
    }
    const used = random.chance(0.3) ? 1 : random.next();
    const spent = {
      nanos: Math.floor(granted.nanos * used),
      tokens: Math.floor(granted.tokens * used),
    };
    const [toMs, longMs] = [
      random.chance(0.05) ? 20_000 : 100,
      random.chance(0.05) ? 90_000 : 6_000,
    ];
    this.#calls++;
    this.#clock.after(random.between(0, toMs), () => {
      for (const budget of budgets) this.#charge(budget, spent);
      this.#clock.after(random.between(10, longMs), () => end(() => settle(spent)));
    });
  }

  #charge({ record, account, unit }: Budget, spent: Amount): void {
    const id = `${record.name} ${account}`;
    const charged = (this.#charged.get(id) ?? 0) + (unit === 'USD' ? spent.nanos : spent.tokens);
    this.#charged.set(id, charged);
    const max = this.#maxOf(record, account, unit);
    if (charged > max)
      this.#break('no more is charged than the budget', `${id}: ${charged} of ${max}`);
  }

  /** The highest limit that ever was, and what was added. */
  #maxOf(record: RecordKey, account: string, unit: Budget['unit']): number {
    const budget = this.#budgets.find(
      (one) => one.record.name === record.name && one.unit === unit,
    );
    return (budget?.highest ?? 0) + (this.#raised.get(`${record.name} ${account}`) ?? 0);
  }

  #checkWrite(key: RecordKey): void {
    for (const account of this.#records.accounts(key)) {
      const id = `${key.name} ${account.key}`;
      const spent = spentOf(account);
      if (spent < (this.#spent.get(id) ?? 0))
        this.#break('what is spent stays spent', `${id}: ${spent}`);
      this.#spent.set(id, spent);
      const max = this.#maxOf(key, account.key, account.unit);
      if (committedOf(account) > max)
        this.#break('no more is granted than the budget', `${key.name} ${JSON.stringify(account)}`);
    }
  }

  #kill(process: Process | undefined): void {
    const replica = this.#replicas.find((one) => one.process === process);
    if (process === undefined || replica === undefined || this.#isOver) return;
    this.#note(`${process.name} is killed`);
    this.#isExact = false;
    this.#kills++;
    process.kill();
    this.#replicas = this.#replicas.filter((one) => one !== replica);
    this.#start();
  }

  /** The time of the last end of a pause. */
  #pausedMs = -1;

  #pause(): void {
    const replica = this.#random.pick(this.#replicas);
    if (replica === undefined || replica.process.isPaused) return;
    const { process } = replica;
    const isLong = this.#random.chance(0.6);
    this.#note(`${process.name} pauses`);
    process.isPaused = true;
    if (isLong) this.#isExact = false;
    const forMs = isLong ? this.#random.between(500_000, 900_000) : this.#random.between(0, 40_000);
    this.#clock.after(forMs, () => {
      this.#note(`${process.name} goes on`);
      this.#pausedMs = this.#clock.monotonic();
      process.resume();
    });
    // Time passes faster for all, so that the pause ends within the run.
    if (isLong && this.#random.chance(0.7)) this.#skip = forMs;
  }

  #skip = 0;

  #goAway(): void {
    this.#note('the API server is away');
    this.#records.awayUntilMs = this.#clock.monotonic() + this.#random.between(1_000, 20_000);
  }

  /** A replica ends as a rolling update ends it. */
  #closeOne(): void {
    const replica = this.#random.pick(this.#replicas);
    if (replica === undefined || replica.process.isPaused || replica.isClosing) return;
    this.#note(`${replica.process.name} closes`);
    replica.isClosing = true;
    this.#start();
    const isPatient = this.#random.chance(0.6);
    const close = () => {
      if (isPatient && replica.calls > 0) this.#clock.after(500, close);
      else this.#close(replica);
    };
    close();
  }

  #close(replica: Replica): void {
    const { process, ledger } = replica;
    process.run(() => {
      const beganMs = this.#clock.monotonic();
      // A call that is not awaited counts in full.
      if (replica.calls > 0) this.#isExact = false;
      void ledger.close().then(() => {
        const tookMs = this.#clock.monotonic() - beganMs;
        if (tookMs > maxCloseMs && this.#pausedMs < beganMs)
          this.#break('a replica closes within a bounded time', `${tookMs} ms`);
        // A share that could not be settled in that time counts in full, too.
        if (tookMs >= 9_900) this.#isExact = false;
        this.#replicas = this.#replicas.filter((one) => one !== replica);
        this.#note(`${process.name} is closed`);
      });
    });
  }

  #changeLimit(): void {
    const budget = this.#random.pick(this.#budgets);
    if (budget === undefined) return;
    budget.past.push({ limit: budget.earlier, untilMs: this.#clock.monotonic() });
    budget.earlier = budget.limit;
    budget.limit = Math.ceil(budget.limit * this.#random.between(0.3, 1.6));
    budget.highest = Math.max(budget.highest, budget.limit);
    this.#note(`the limit of ${budget.record.name} ${budget.unit} is ${budget.limit}`);
  }

  #raise(): void {
    const [id, budget] = this.#random.pick([...this.#started]) ?? [];
    if (id === undefined || budget === undefined) return;
    const amount = this.#random.whole(1, 50) * (budget.unit === 'USD' ? cent : 10_000);
    this.#records.change(budget.record, (accounts) =>
      accounts.map((account) =>
        account.key === budget.account ? { ...account, raised: account.raised + amount } : account,
      ),
    );
    const account = this.#records.accounts(budget.record).find(({ key }) => key === budget.account);
    this.#raised.set(id, account?.raised ?? 0);
  }

  async #advance(byMs: number): Promise<void> {
    await this.#clock.advance(byMs + this.#skip);
    this.#skip = 0;
    if (this.#broken !== undefined) throw this.#broken;
  }

  /** Faults end, calls end, replicas close; then what the records say has to be true. */
  async #end(): Promise<void> {
    this.#isOver = true;
    this.#records.chances = { ...noFaults };
    this.#records.awayUntilMs = -Infinity;
    for (const { process } of this.#replicas)
      if (process.isPaused) {
        this.#pausedMs = this.#clock.monotonic();
        process.resume();
      }
    await this.#advance(150_000);
    if (this.#replicas.some(({ calls }) => calls > 0))
      throw new BrokenPromise('each call ends', JSON.stringify(this.#replicas.map((r) => r.calls)));
    for (const replica of this.#replicas) {
      if (replica.ledger.size > 0)
        throw new BrokenPromise('nothing unused stays in memory', replica.process.name);
      if (!replica.isClosing) this.#close(replica);
    }
    await this.#advance(maxCloseMs);
    if (this.#replicas.length > 0)
      throw new BrokenPromise('a replica closes within a bounded time', this.lines.at(-1) ?? '');
    const timers = this.#processes.filter((process) => process.timers > 0);
    if (timers.length > 0)
      throw new BrokenPromise('no timer is left behind', timers.map(({ name }) => name).join());
    if (this.#isExact) this.#checkSettled();
    await this.#advance(660_000);
    await this.#useUp();
    this.#checkSettled();
  }

  /** After ten minutes, whoever comes can use what is left, and finds nothing reserved. */
  async #useUp(): Promise<void> {
    const { ledger } = this.#start();
    for (const [id, budget] of this.#started) {
      const account = this.#records
        .accounts(budget.record)
        .find(({ key }) => key === budget.account);
      const spent = account === undefined ? 0 : committedOf(account);
      const left = budget.limit + (this.#raised.get(id) ?? 0) - spent;
      const amount = Math.max(1, left);
      const all = { nanos: amount, tokens: amount };
      const { signal } = new AbortController();
      const asked = { owner: 'last', budgets: [budget], want: all, least: all, signal };
      const outcome = await this.#clock.run(ledger.reserve(asked));
      if (left > 0 === 'reason' in outcome)
        throw new BrokenPromise('what is not spent can be used', `${id}: ${left}`);
      if (!('reason' in outcome)) outcome.release();
    }
    await this.#clock.run(ledger.close());
  }

  #checkSettled(): void {
    for (const [id, { record, account: key }] of this.#started) {
      const account = this.#records.accounts(record).find((one) => one.key === key);
      if (account === undefined) {
        if ((this.#charged.get(id) ?? 0) > 0) throw new BrokenPromise('all is counted', id);
        continue;
      }
      const [spent, charged] = [spentOf(account), this.#charged.get(id) ?? 0];
      const text = `${id}: ${spent} spent, ${charged} charged`;
      if (account.holders.length > 0)
        throw new BrokenPromise('nothing stays reserved', JSON.stringify(account));
      if (spent < charged) throw new BrokenPromise('all is counted', text);
      if (this.#isExact && spent !== charged) throw new BrokenPromise('no more is counted', text);
    }
  }

  #break(rule: string, message: string): void {
    this.#broken ??= new BrokenPromise(rule, message);
  }

  #note(line: string): void {
    this.lines.push(`${(this.#clock.monotonic() / 1000).toFixed(3)} ${line}`);
  }
}
