import { parseArgs } from 'node:util';
import { replayCommandOf, runModel, type ModelOutcome } from './model.ts';

const report = ({ seed, failure, steps, durationMs, hash }: ModelOutcome): string =>
  `seed ${seed}: ${failure?.message ?? 'clean'}; ${steps} steps, ${(durationMs / 1000).toFixed(0)} s of its time, hash ${hash}\n`;

/** Runs one seed with its trace, or many until one fails. */
async function main(): Promise<boolean> {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string' },
      seeds: { type: 'string', default: '200' },
      'first-seed': { type: 'string', default: '1' },
      lines: { type: 'string', default: '400' },
      memory: { type: 'boolean', default: false },
      'keep-going': { type: 'boolean', default: false },
    },
  });
  const isInMemory = values.memory;
  if (values.seed !== undefined) {
    const keepLines = Number(values.lines);
    const outcome = await runModel({ seed: Number(values.seed), isInMemory, keepLines });
    process.stdout.write(`${outcome.lines.join('\n')}\n${report(outcome)}`);
    return outcome.failure === undefined;
  }
  const [first, count] = [Number(values['first-seed']), Number(values.seeds)];
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;
  const failures = new Map<string, number>();
  let done = 0;
  let steps = 0;
  for (let seed = first; seed < first + count; seed++) {
    const outcome = await runModel({ seed, isInMemory });
    done++;
    steps += outcome.steps;
    if (done % 500 === 0) process.stdout.write(`${done} seeds, ${seconds().toFixed(0)} s\n`);
    if (outcome.failure === undefined) continue;
    const { rule } = outcome.failure;
    failures.set(rule, (failures.get(rule) ?? 0) + 1);
    process.stdout.write(`${report(outcome)}  ${replayCommandOf({ seed })}\n`);
    if (!values['keep-going']) break;
  }
  for (const [rule, times] of failures) process.stdout.write(`${times} fail ‘${rule}’\n`);
  const failed = [...failures.values()].reduce((sum, one) => sum + one, 0);
  process.stdout.write(
    `${done} seeds from ${first}, ${failed} failed, ${steps} steps, ${seconds().toFixed(1)} s\n`,
  );
  return failed === 0;
}

process.exitCode = (await main()) ? 0 : 1;
