import { firstSeed } from '../first-seed.ts';
import { seedsOf, timeoutMs } from '../seed-ranges.ts';
import { spendAlone } from './alone.ts';
import { runBudgets } from './model.ts';

const first = firstSeed();
/** Seeds of each part: 10,000 in all with BUDGET_SEEDS=2500. */
const seeds = Number(process.env['BUDGET_SEEDS'] ?? 100);

describe(`from seed ${first} on, budgets hold`, () => {
  it.each([0, 1, 2, 3])(
    'whenever replicas die and answers are lost, part %i',
    async (part) => {
      for (const seed of seedsOf(first + part * seeds, seeds)) await runBudgets(seed);
    },
    timeoutMs,
  );

  it(
    'and one conversation alone can use nine tenths of a budget',
    async () => {
      for (const seed of seedsOf(first, seeds / 2)) {
        const { part } = await spendAlone(seed);
        if (part < 0.9 || part > 1) throw new Error(`seed ${seed} uses ${part} of its budget`);
      }
    },
    timeoutMs,
  );
});

it('a seed is the same run every time', async () => {
  expect(await runBudgets(3)).toEqual(await runBudgets(3));
});
