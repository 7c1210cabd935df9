import { Worker } from 'node:worker_threads';
import type { Hunt } from './hunt.ts';
import type { SourceMutation } from './mutated-source.ts';
import type { MutantJob, MutantOutcome } from './mutant-worker.ts';

/** Maximum number of seeds of one worker: each leaves about 1 MiB behind. */
const seedsPerWorker = 100;

const startWorker = (mutation: SourceMutation, program: URL): Worker =>
  new Worker(program, { workerData: mutation });

/**
 * Simulates seeds of a hunt in a thread of its own, one after the other, while there are any and
 * the thread may hold more. A mistake that ends the thread counts as a failure of its seed.
 */
export async function runSome(hunt: Hunt, program: URL): Promise<void> {
  const { mutation, kill } = hunt.options;
  const { rule: _rule, seeds: _seeds, ...world } = kill;
  const worker = startWorker(mutation, program);
  const exited = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  let seed = 0;
  let left = seedsPerWorker;
  const end = () => void worker.terminate();
  const give = () => {
    const next = left-- > 0 ? hunt.take() : undefined;
    if (next === undefined) end();
    else {
      seed = next;
      worker.postMessage({ ...world, seed } satisfies MutantJob);
    }
  };
  worker.on('error', (error) => {
    hunt.record({ seed, rule: 'the thread ends', message: String(error), steps: 0 });
    end();
  });
  worker.on('message', ({ failure, steps }: MutantOutcome) => {
    hunt.record(failure === undefined ? undefined : { seed, ...failure, steps });
    give();
  });
  give();
  await exited;
}

/** Runs one seed with a mistake, and returns the last lines of what happens in it. */
export function replay(
  mutation: SourceMutation,
  job: MutantJob & { readonly keepLines: number },
  program: URL,
): Promise<MutantOutcome> {
  return new Promise((resolve, reject) => {
    const worker = startWorker(mutation, program);
    worker.once('error', reject);
    worker.once('message', (outcome: MutantOutcome) => {
      resolve(outcome);
      void worker.terminate();
    });
    worker.postMessage(job);
  });
}
