import { parentPort, workerData } from 'node:worker_threads';
import type { SimulationOptions } from '../stage.ts';
import { compiled } from './compiled.ts';
import { mutateSource, type SourceMutation } from './mutated-source.ts';

export type MutantJob = SimulationOptions;

export interface MutantOutcome {
  readonly failure: { readonly rule: string; readonly message: string } | undefined;
  readonly lines: readonly string[];
  readonly steps: number;
}

mutateSource(workerData as SourceMutation);
const { simulate } = await compiled(() => import('../simulation.ts'));

parentPort?.on('message', (job: MutantJob) => {
  void simulate(job).then(({ failure, lines, steps }) =>
    parentPort?.postMessage({ failure, lines, steps } satisfies MutantOutcome),
  );
});
