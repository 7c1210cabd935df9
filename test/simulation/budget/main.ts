import { parseArgs } from 'node:util';
import { runBudgets, type BrokenPromise } from './model.ts';

/** Runs many seeds, and says how fast they ran. Ends at the first that fails, unless told not to. */
async function main(): Promise<boolean> {
  const { values } = parseArgs({
    options: {
      seeds: { type: 'string', default: '1000' },
      'first-seed': { type: 'string', default: '1' },
      'keep-going': { type: 'boolean', default: false },
    },
  });
  const [first, count] = [Number(values['first-seed']), Number(values.seeds)];
  const beganMs = performance.now();
  const failures = new Map<string, number>();
  const sums = { calls: 0, refused: 0, writes: 0, requests: 0, kills: 0 };
  let done = 0;
  for (let seed = first; seed < first + count; seed++) {
    done++;
    try {
      const outcome = await runBudgets(seed);
      for (const name of Object.keys(sums) as (keyof typeof sums)[]) sums[name] += outcome[name];
    } catch (error) {
      const { message, cause } = error as Error;
      const rule = (cause as BrokenPromise | undefined)?.rule ?? String(cause);
      failures.set(rule, (failures.get(rule) ?? 0) + 1);
      process.stdout.write(`${values['keep-going'] ? message.split('\n')[0] : message}\n`);
      if (!values['keep-going']) break;
    }
  }
  const seconds = (performance.now() - beganMs) / 1000;
  for (const [rule, times] of failures) process.stdout.write(`${times} fail ‘${rule}’\n`);
  process.stdout.write(
    `${done} seeds from ${first} in ${seconds.toFixed(1)} s, ${(done / seconds).toFixed(1)} a second: ${JSON.stringify(sums)}\n`,
  );
  return failures.size === 0;
}

process.exitCode = (await main()) ? 0 : 1;
