import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { kubeconfig } from '../../e2e/support/cluster.ts';

const program = fileURLToPath(new URL('../engine/main.ts', import.meta.url));

/** Puts all policies of the cluster in force; returns what ends it. */
export async function enforcePolicies({
  rangesMatchCluster,
}: {
  readonly rangesMatchCluster: boolean;
}): Promise<() => Promise<void>> {
  const child = spawn(
    process.execPath,
    [program, kubeconfig, ...(rangesMatchCluster ? [] : ['--ranges-never-match-cluster'])],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const ended = once(child, 'exit');
  await Promise.race([
    once(child.stdout, 'data'),
    ended.then(() => {
      throw new Error('the engine of policies has ended');
    }),
  ]);
  return async () => {
    child.kill();
    await ended;
  };
}
