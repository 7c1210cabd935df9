import { parentPort, workerData } from 'node:worker_threads';
import type { SimulationOptions } from '../stage.ts';
import { compiled } from './compiled.ts';
import { mutateSource } from './mutated-source.ts';
import type { Mistake } from './hunt.ts';

export type MutantJob = Omit<SimulationOptions, 'mutant'>;

export interface MutantOutcome {
  readonly failure: { readonly rule: string; readonly message: string } | undefined;
  readonly lines: readonly string[];
  readonly steps: number;
}

const mistake = workerData as Mistake;
if ('mutation' in mistake) mutateSource(mistake.mutation);
const { simulate } = await compiled(() => import('../simulation.ts'));
const mutant = 'mutation' in mistake ? {} : await componentOf(mistake.component);

async function componentOf(name: string) {
  const { componentMutants } = await compiled(
    () => import('../component-mutants/component-mutants.ts'),
  );
  const known = componentMutants.find((one) => one.name === name);
  if (known === undefined) throw new Error(`no component mutant is named: ${name}`);
  return known.component;
}

parentPort?.on('message', (job: MutantJob) => {
  void simulate({ ...job, mutant }).then(({ failure, lines, steps }) =>
    parentPort?.postMessage({ failure, lines, steps } satisfies MutantOutcome),
  );
});
