import { parentPort, workerData } from 'node:worker_threads';
import { compiled } from '../../mutants/compiled.ts';
import { mutateSource, type SourceMutation } from '../../mutants/mutated-source.ts';
import type { MutantJob, MutantOutcome } from '../../mutants/mutant-worker.ts';

mutateSource(workerData as SourceMutation);
const { runModel } = await compiled(() => import('../model.ts'));

parentPort?.on('message', ({ seed }: MutantJob) => {
  void runModel({ seed, isInMemory: true }).then(({ failure }) =>
    parentPort?.postMessage({ failure, lines: [], steps: 0 } satisfies MutantOutcome),
  );
});
