import { silentLogger } from '@conversation-operator/base/logger';
import { BudgetLedger, type Budget } from '../../../src/budget/ledger.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { Random } from '../random.ts';
import { FaultyRecords, noFaults } from './faulty-records.ts';
import { Process } from './process.ts';

const cent = 10_000_000;
const limit = 100 * cent;

export interface AloneOutcome {
  /** What was charged, as a part of the budget. */
  readonly part: number;
  readonly calls: number;
  readonly requests: number;
}

/**
 * One conversation makes calls of about a cent, one after the other, at replicas that a load
 * balancer chooses, until its budget of one dollar is exhausted. The seed determines the run.
 */
export async function spendAlone(seed: number): Promise<AloneOutcome> {
  const random = new Random(`alone ${seed}`);
  const clock = new VirtualClock();
  const records = new FaultyRecords(clock, random.fork('records'));
  const otherWriter = random.chance(0.5) ? random.between(0, 0.3) : 0;
  records.chances = { ...noFaults, otherWriter };
  const ledgers = Array.from({ length: random.whole(1, 4) }, (_, index) => {
    const process = new Process(`replica-${index}`, clock, 0);
    return new BudgetLedger({
      store: records.store(process),
      replica: process.name,
      clock: process,
      random: random.fork(process.name).next,
      logger: silentLogger,
      onExcess: () => undefined,
    });
  });
  const budget: Budget = {
    record: { namespace: 'default', name: 'usage-alone', spec: { scope: 'Conversation' } },
    account: 'conversation',
    unit: 'USD',
    limit,
  };
  const isCheap = random.chance(0.5);
  const thinkMs = random.chance(0.5) ? 3_000 : 100;
  let [charged, calls] = [0, 0];
  for (;;) {
    const ledger = random.pick(ledgers);
    const nanos = Math.ceil(random.between(0.8, 1.2) * cent);
    const want = { nanos, tokens: 0 };
    const { signal } = new AbortController();
    const asked = { owner: 'alice', budgets: [budget], want, least: want, signal };
    const outcome = await clock.run(ledger?.reserve(asked) ?? Promise.reject(new Error('none')));
    if ('reason' in outcome) break;
    const spent = isCheap ? Math.floor(random.next() * nanos) : nanos;
    charged += spent;
    calls++;
    await clock.advance(random.between(100, 4_000));
    outcome.settle({ nanos: spent, tokens: 0 });
    await clock.advance(random.between(0, thinkMs));
  }
  await clock.run(Promise.all(ledgers.map((ledger) => ledger.close())));
  return { part: charged / limit, calls, requests: records.requests };
}
