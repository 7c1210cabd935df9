import { Worker } from 'node:worker_threads';
import type { ExpectedKill, MutantJob } from './mutant-worker.ts';

/**
 * Simulates seeds with a mistake in the product, in a thread of its own, until one of them fails.
 */
export function runMutant(job: MutantJob): Promise<ExpectedKill | undefined> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL('mutant-worker.ts', import.meta.url), { workerData: job });
    worker.once('message', (kill: ExpectedKill | undefined) => {
      resolve(kill);
      void worker.terminate();
    });
    worker.once('error', reject);
  });
}
