import { silentLogger } from '@conversation-operator/base/logger';
import { committedOf } from '../../../src/budget/account.ts';
import {
  BudgetLedger,
  type Budget,
  type Exhausted,
  type Reservation,
  type ReserveRequest,
} from '../../../src/budget/ledger.ts';
import type { Account, RecordStore, StoredRecord } from '../../../src/budget/record-store.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

/** Outcome of the next write. */
type Fate = 'applied' | 'answer lost' | 'late';

class Records implements RecordStore {
  readonly #clock: VirtualClock;
  readonly stored = new Map<string, StoredRecord>();
  readonly fates: Fate[] = [];
  isAway = false;
  /** Called while a write is under way. */
  onWrite: () => void = () => undefined;
  #versions = 0;
  reads = 0;
  writes = 0;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
  }

  get accounts(): readonly Account[] {
    return [...this.stored.values()].flatMap(({ accounts }) => accounts);
  }

  async #pass(): Promise<void> {
    await new Promise<void>((resolve) => this.#clock.after(5, resolve));
  }

  put(name: string, accounts: readonly Account[]): StoredRecord {
    const record = { version: String(++this.#versions), accounts };
    this.stored.set(name, record);
    return record;
  }

  async read({ name }: Budget['record']) {
    this.reads++;
    await this.#pass();
    const record = this.stored.get(name);
    if (this.isAway) return { kind: 'unavailable' } as const;
    return record === undefined
      ? ({ kind: 'missing' } as const)
      : ({ kind: 'found', record } as const);
  }

  async create({ name }: Budget['record']) {
    await this.#pass();
    return { kind: 'done', record: this.put(name, []) } as const;
  }

  async replace(
    { name }: Budget['record'],
    { version }: StoredRecord,
    accounts: readonly Account[],
  ) {
    this.writes++;
    this.onWrite();
    const fate = this.fates.shift() ?? 'applied';
    await this.#pass();
    if (this.isAway) return { kind: 'unknown' } as const;
    const apply = () => {
      const stored = this.stored.get(name);
      if (stored?.version !== version) return undefined;
      // A write that changes nothing leaves the version, as that of the API server does.
      const isSame = JSON.stringify(stored.accounts) === JSON.stringify(accounts);
      return isSame ? stored : this.put(name, accounts);
    };
    if (fate === 'late') {
      this.#clock.after(1_000, apply);
      return { kind: 'unknown' } as const;
    }
    const record = apply();
    if (fate === 'answer lost') return { kind: 'unknown' } as const;
    return record === undefined
      ? ({ kind: 'conflict' } as const)
      : ({ kind: 'done', record } as const);
  }
}

const aBudget = (more: Partial<Budget> = {}): Budget => ({
  record: { namespace: 'default', name: 'usage', spec: { scope: 'Owner' } },
  account: 'default/Day/2030-01-01',
  unit: 'USD',
  limit: 100,
  ...more,
});
const wider = aBudget({
  record: { namespace: 'default', name: 'usage-all', spec: { scope: 'Namespace' } },
});

function aScene() {
  const clock = new VirtualClock();
  const store = new Records(clock);
  const excesses: number[] = [];
  let serial = 0;
  const open = () =>
    new BudgetLedger({
      store,
      clock,
      random: () => 0.5,
      logger: silentLogger,
      replica: `replica-${++serial}`,
      onExcess: (_budget, excess) => excesses.push(excess),
    });
  const ledger = open();
  const start = (nanos: number, more: Partial<ReserveRequest> = {}, by = ledger) =>
    by.reserve({
      owner: 'alice',
      budgets: [aBudget()],
      want: { nanos, tokens: 0 },
      least: { nanos, tokens: 0 },
      signal: new AbortController().signal,
      ...more,
    });
  const reserve = (...given: Parameters<typeof start>) => clock.run(start(...given));
  return { clock, store, excesses, open, ledger, start, reserve };
}

function granted(outcome: Reservation | Exhausted): Reservation {
  if ('reason' in outcome) throw new Error(`refused: ${JSON.stringify(outcome)}`);
  return outcome;
}
const cost = (nanos: number) => ({ nanos, tokens: 0 });

it('counts a call in full until it is settled, and then what it has cost', async () => {
  const { clock, store, ledger, reserve } = aScene();
  const call = granted(await reserve(40));
  expect(store.accounts.map(committedOf)).toEqual([40]);
  call.settle(cost(7));
  await clock.run(ledger.close());
  expect(store.accounts).toMatchObject([{ spent: 7, holders: [] }]);
  expect(clock.timers).toBe(0);
});

it('a call that was not made costs nothing, whatever its caller does afterwards', async () => {
  const { clock, store, ledger, reserve } = aScene();
  const call = granted(await reserve(40));
  call.release();
  call.settle(cost(40));
  await clock.run(ledger.close());
  expect(store.accounts).toMatchObject([{ spent: 0, holders: [] }]);
});

it.each([
  [-1, 40],
  [Number.NaN, 40],
  [1.5, 2],
])('a cost of %d counts as %d', async (nanos, spent) => {
  const { clock, store, ledger, reserve, excesses } = aScene();
  granted(await reserve(40)).settle(cost(nanos));
  await clock.run(ledger.close());
  expect(store.accounts).toMatchObject([{ spent }]);
  expect(excesses).toEqual([]);
});

it('a cost beyond what was reserved is counted and reported', async () => {
  const { clock, store, ledger, reserve, excesses } = aScene();
  granted(await reserve(40)).settle(cost(140));
  expect(excesses).toEqual([100]);
  await clock.run(ledger.close());
  expect(store.accounts).toMatchObject([{ spent: 140 }]);
});

it('a call gets what is left, or nothing', async () => {
  const { reserve } = aScene();
  granted(await reserve(70));
  const budgets = [aBudget()];
  const part = granted(await reserve(60, { budgets, least: cost(20) }));
  expect(part.granted).toEqual(cost(30));
  expect(await reserve(1)).toMatchObject({ reason: 'exhausted', budget: aBudget() });
});

it('a call that does not fit is refused at once where nobody holds anything', async () => {
  const { clock, reserve } = aScene();
  granted(await reserve(90)).settle(cost(90));
  const sinceMs = clock.monotonic();
  expect(await reserve(20)).toMatchObject({ reason: 'exhausted', spent: 90 });
  expect(clock.monotonic() - sinceMs).toBeLessThan(100);
});

it('a call waits for one in flight that may cost less', async () => {
  const { clock, start, reserve } = aScene();
  const first = granted(await reserve(90));
  const second = start(50);
  await clock.advance(2_000);
  first.settle(cost(10));
  expect(granted(await clock.run(second, 10)).granted).toEqual(cost(50));
});

it('a replica gives back what it does not use, and a call of another waits for that', async () => {
  const { clock, open, reserve } = aScene();
  granted(await reserve(90)).settle(cost(10));
  const sinceMs = clock.monotonic();
  expect(granted(await reserve(90, {}, open())).granted).toEqual(cost(90));
  expect(clock.monotonic() - sinceMs).toBeLessThan(6_000);
});

it('what is being given back serves no call', async () => {
  const { clock, store, open, start, reserve } = aScene();
  granted(await reserve(10));
  granted(await reserve(80)).settle(cost(0));
  let [late, inFlight] = [0, 10];
  const isGranted = (outcome: Reservation | Exhausted) => {
    if ('granted' in outcome) inFlight += outcome.granted.nanos;
  };
  store.onWrite = () => {
    if (late++ === 0) void start(80).then(isGranted);
  };
  await clock.advance(5_000);
  await clock.run(start(80, {}, open()).then(isGranted));
  await clock.advance(10_000);
  expect(late).toBeGreaterThan(0);
  expect(inFlight).toBe(90);
});

it('a replica that others took for dead drops its share', async () => {
  const { clock, store, ledger, reserve } = aScene();
  const call = granted(await reserve(40));
  granted(await reserve(20)).settle(cost(20));
  const [lost = 0] = store.accounts.map(committedOf);
  store.put(
    'usage',
    store.accounts.map((account) => ({ ...account, spent: committedOf(account), holders: [] })),
  );
  granted(await reserve(30)).settle(cost(5));
  call.settle(cost(40));
  await clock.run(ledger.close());
  expect(store.accounts).toMatchObject([{ spent: lost + 5, holders: [] }]);
});

it('a refused call leaves nothing reserved of other budgets', async () => {
  const { clock, store, ledger, reserve } = aScene();
  const budgets = [wider, aBudget({ limit: 1_000 })];
  expect(await reserve(200, { budgets })).toMatchObject({ reason: 'exhausted', budget: wider });
  granted(await reserve(1_000, { budgets: [aBudget({ limit: 1_000 })] })).release();
  await clock.run(ledger.close());
  expect(store.accounts.map(committedOf)).toEqual(store.accounts.map(() => 0));
});

it('a call that gets a part of one budget reserves no more of the others', async () => {
  const { reserve } = aScene();
  const budgets = [wider, aBudget({ limit: 1_000 })];
  expect(granted(await reserve(1_000, { budgets, least: cost(50) })).granted).toEqual(cost(100));
  granted(await reserve(900, { budgets: [aBudget({ limit: 1_000 })] }));
});

it('counts tokens and money by themselves', async () => {
  const { reserve } = aScene();
  const tokens = aBudget({ account: 'default/Day/2030-01-01/Tokens', unit: 'Tokens', limit: 50 });
  const outcome = await reserve(0, {
    budgets: [aBudget(), tokens],
    want: { nanos: 80, tokens: 70 },
    least: { nanos: 80, tokens: 10 },
  });
  expect(granted(outcome).granted).toEqual({ nanos: 80, tokens: 50 });
});

it('a late write of a call that was given up is found and given back', async () => {
  const { clock, store, ledger, start } = aScene();
  store.put('usage', []);
  store.fates.push('late');
  const abort = new AbortController();
  const call = start(40, { signal: abort.signal });
  const failure = expect(call).rejects.toThrow('left');
  await clock.advance(20);
  abort.abort(new Error('left'));
  await failure;
  await clock.advance(20_000);
  expect(store.writes).toBeLessThan(10);
  expect(store.accounts.flatMap(({ holders }) => holders)).toEqual([]);
  expect([ledger.size, clock.timers]).toEqual([0, 0]);
});

it('a write whose answer is lost counts once', async () => {
  const { clock, store, ledger, reserve } = aScene();
  store.fates.push('answer lost');
  const call = granted(await reserve(40));
  expect(store.accounts.map(committedOf)).toEqual([40]);
  call.settle(cost(30));
  store.fates.push('answer lost', 'answer lost');
  await clock.run(ledger.close());
  expect(store.accounts).toMatchObject([{ spent: 30, holders: [] }]);
});

it('goes on within its share while the API server is away, and then refuses', async () => {
  const { clock, store, reserve } = aScene();
  const budgets = [aBudget({ limit: 10_000 })];
  for (let call = 0; call < 3; call++) granted(await reserve(10, { budgets })).settle(cost(1));
  store.isAway = true;
  expect(granted(await reserve(10, { budgets })).granted).toEqual(cost(10));
  const sinceMs = clock.monotonic();
  expect(await reserve(500, { budgets })).toMatchObject({ reason: 'unavailable' });
  expect(clock.monotonic() - sinceMs).toBeLessThan(7_000);
  store.isAway = false;
  granted(await reserve(500, { budgets }));
});

it('does not call a budget exhausted that it can not read', async () => {
  const { clock, store, open, start, reserve } = aScene();
  granted(await reserve(90, {}, open()));
  const waiting = start(50);
  await clock.advance(100);
  store.isAway = true;
  expect(await clock.run(waiting)).toMatchObject({ reason: 'unavailable' });
});

it('a lowered limit holds at once for what is not in flight', async () => {
  const { reserve } = aScene();
  const budgets = [aBudget({ limit: 10_000 })];
  for (let call = 0; call < 3; call++)
    granted(await reserve(1_000, { budgets })).settle(cost(1_000));
  expect(await reserve(10, { budgets: [aBudget({ limit: 3_000 })] })).toMatchObject({
    reason: 'exhausted',
    spent: 3_000,
  });
});

it('calls that come at once share writes', async () => {
  const { clock, store, start } = aScene();
  const budgets = [aBudget({ limit: 10_000 })];
  const outcomes = await clock.run(
    Promise.all(Array.from({ length: 100 }, () => start(10, { budgets }))),
  );
  for (const outcome of outcomes) granted(outcome).settle(cost(5));
  expect(store.writes).toBeLessThanOrEqual(2);
});

it('steady calls need few writes', async () => {
  const { clock, store, reserve } = aScene();
  const budgets = [aBudget({ limit: 1e9 })];
  for (let round = 0; round < 600; round++) {
    const call = granted(await reserve(1_000, { budgets }));
    clock.after(2_000, () => call.settle(cost(300)));
    await clock.advance(100);
  }
  // One in five seconds at most, and those of the first calls.
  expect(store.writes + store.reads).toBeLessThan(30);
});

it('a call of a busy owner does not delay one of another owner', async () => {
  const { clock, start, reserve } = aScene();
  const first = granted(await reserve(100));
  const order: string[] = [];
  const waiting = ['alice', 'alice', 'alice', 'bob'].map((owner) =>
    start(10, { owner }).then(() => order.push(owner)),
  );
  await clock.advance(1_500);
  first.settle(cost(0));
  await clock.run(Promise.all(waiting));
  expect(order).toEqual(['alice', 'bob', 'alice', 'alice']);
});

it('a long call keeps its share', async () => {
  const { clock, store, open, reserve } = aScene();
  const call = granted(await reserve(60));
  await clock.advance(1_800_000);
  expect(await reserve(60, {}, open())).toMatchObject({ reason: 'exhausted' });
  expect(store.accounts).toMatchObject([{ spent: 0, holders: [{ granted: 60 }] }]);
  call.settle(cost(1));
});

it('a closed ledger refuses, and counts calls in flight in full', async () => {
  const { clock, store, ledger, reserve } = aScene();
  const call = granted(await reserve(40));
  await clock.run(ledger.close());
  call.settle(cost(1));
  expect(await reserve(1)).toMatchObject({ reason: 'unavailable' });
  expect(store.accounts).toMatchObject([{ spent: 40, holders: [] }]);
  expect(clock.timers).toBe(0);
});

it('closes in a bounded time while the API server is away', async () => {
  const { clock, store, ledger, reserve } = aScene();
  granted(await reserve(40));
  store.isAway = true;
  await clock.run(ledger.close(), 11_000);
  await clock.advance(100);
  expect(clock.timers).toBe(0);
});

it('closes after a write under way, whose outcome may stay unknown', async () => {
  const { clock, store, ledger, start } = aScene();
  store.put('usage', []);
  store.fates.push('answer lost');
  const call = start(40);
  await clock.advance(7);
  expect(store.writes).toBe(1);
  await clock.run(ledger.close());
  expect(await call).toMatchObject({ reason: 'unavailable' });
  expect(store.accounts.flatMap(({ holders }) => holders)).toEqual([]);
});

it('writes for the store alone when it is asked to, and forgets the record', async () => {
  const { clock, store, ledger } = aScene();
  ledger.requestWrite(aBudget().record);
  await clock.advance(10_000);
  expect([store.writes, store.accounts, ledger.size, clock.timers]).toEqual([1, [], 0, 0]);
});

it('an account of a deleted record begins again, and the calls in flight end', async () => {
  const { store, reserve, clock, ledger } = aScene();
  const call = granted(await reserve(40));
  store.stored.clear();
  granted(await reserve(90)).settle(cost(90));
  call.settle(cost(40));
  await clock.run(ledger.close());
  expect(store.accounts).toMatchObject([{ spent: 90, holders: [] }]);
});
