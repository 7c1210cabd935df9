import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { Worker, isMainThread, parentPort } from 'node:worker_threads';
import { replayCommand, simulate, type Outcome, type SimulationOptions } from './simulation.ts';

type Faults = NonNullable<SimulationOptions['faults']>;

type Job = { readonly seed: number; readonly faults: Faults };

const report = (outcome: Outcome): string =>
  `seed ${outcome.seed}: ${outcome.failure?.message ?? 'clean'}; ${outcome.steps} steps, ${(outcome.durationMs / 1000).toFixed(1)} s of its time, hash ${outcome.hash}\n`;

/** One seed, with everything that happens in it. */
async function replay(seed: number, keepLines: number, faults: Faults): Promise<boolean> {
  const outcome = await simulate({ seed, keepLines, faults });
  process.stdout.write(`${outcome.lines.join('\n')}\n${report(outcome)}${replayCommand(seed)}\n`);
  return outcome.failure === undefined;
}

interface Batch {
  readonly first: number;
  readonly count: number;
  readonly workers: number;
  readonly faults: Faults;
  readonly keepGoing: boolean;
}

/** Many seeds over several workers. Ends at the first that fails, unless told to go on, and shows how to see it again. */
async function runMany({ first, count, workers, faults, keepGoing }: Batch): Promise<boolean> {
  const began = performance.now();
  const failed: Outcome[] = [];
  let next = first;
  let done = 0;
  let steps = 0;
  const seconds = () => (performance.now() - began) / 1000;
  const work = () =>
    new Promise<void>((resolve, reject) => {
      const worker = new Worker(new URL(import.meta.url));
      const give = () => {
        if (next >= first + count || (failed.length > 0 && !keepGoing)) void worker.terminate().then(() => resolve());
        else worker.postMessage({ seed: next++, faults } satisfies Job);
      };
      worker.on('error', reject);
      worker.on('message', (outcome: Outcome) => {
        done++;
        steps += outcome.steps;
        if (outcome.failure !== undefined) {
          failed.push(outcome);
          process.stdout.write(report(outcome));
        }
        if (done % 500 === 0) process.stdout.write(`${done} of ${count} seeds, ${failed.length} failed, ${seconds().toFixed(0)} s\n`);
        give();
      });
      give();
    });
  await Promise.all(Array.from({ length: workers }, work));
  process.stdout.write(
    `${done} seeds from ${first}, ${failed.length} failed, ${steps} steps, ${seconds().toFixed(1)} s with ${workers} workers\n`,
  );
  const earliest = failed.sort((one, other) => one.seed - other.seed)[0];
  if (earliest !== undefined) await replay(earliest.seed, 80, faults);
  return earliest === undefined;
}

async function main(): Promise<boolean> {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string' },
      seeds: { type: 'string', default: '500' },
      'first-seed': { type: 'string', default: '1' },
      workers: { type: 'string', default: String(availableParallelism()) },
      lines: { type: 'string', default: '400' },
      'no-faults': { type: 'boolean', default: false },
      'keep-going': { type: 'boolean', default: false },
    },
  });
  const faults = values['no-faults'] ? 'none' : 'all';
  if (values.seed !== undefined) return replay(Number(values.seed), Number(values.lines), faults);
  const [first, count, workers] = [Number(values['first-seed']), Number(values.seeds), Number(values.workers)];
  return runMany({ first, count, workers, faults, keepGoing: values['keep-going'] });
}

if (isMainThread) {
  process.exitCode = (await main()) ? 0 : 1;
} else {
  parentPort?.on('message', ({ seed, faults }: Job) => void simulate({ seed, faults }).then((outcome) => parentPort?.postMessage(outcome)));
}
