import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { eventually } from '../../support/eventually.ts';
import { kubectl as run } from '../../support/kubectl.ts';

const execute = promisify(execFile);
const up = fileURLToPath(new URL('../../cluster/up', import.meta.url));

export const kubeconfig = process.env['KUBECONFIG'] ?? '';

/** The folder with the files of a cluster of test/cluster; undefined for any other cluster. */
export const stateFolder = process.env['CLUSTER_STATE'];

/** Runs kubectl; throws its error output when it fails. A string is split at spaces. */
export async function kubectl(args: string | readonly string[], input?: string): Promise<string> {
  const list = typeof args === 'string' ? args.split(' ') : args;
  const { code, stdout, stderr } = await run(kubeconfig, list, input);
  if (code !== 0) throw new Error(`kubectl ${list.join(' ')}: ${stderr}`);
  return stdout.trim();
}

/** Like kubectl, but what it says on standard error is the answer. */
export const kubectlRefused = async (
  args: string | readonly string[],
  input?: string,
): Promise<string> => {
  const list = typeof args === 'string' ? args.split(' ') : args;
  const { code, stdout, stderr } = await run(kubeconfig, list, input);
  if (code === 0) throw new Error(`kubectl ${list.join(' ')} was not refused: ${stdout}`);
  return stderr.trim();
};

export const apply = (...objects: readonly object[]): Promise<string> =>
  kubectl('apply -f -', JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }));

export async function getJson<T>(args: string): Promise<T> {
  return JSON.parse(await kubectl(`get ${args} -o json`)) as T;
}

/** Kills a process of a cluster of test/cluster; only `restart` starts it again. */
export async function crash(name: 'apiserver' | 'kubelet'): Promise<void> {
  const pid = Number(readFileSync(join(stateFolder ?? '', `${name}.pid`), 'utf8'));
  process.kill(pid, 'SIGKILL');
  await eventually(`the ${name} to end`, () => {
    try {
      process.kill(pid, 0);
      return false;
    } catch {
      return true;
    }
  });
}

/**
 * Acts on a container by its ID in the status of its pod, as `ctr tasks` does, without the kubelet
 * and the API server: `kill --signal SIGKILL`, `pause`, `resume`. Only with a cluster of
 * test/cluster.
 */
export async function containerTask(containerID: string, args: string): Promise<void> {
  const socket = join(stateFolder ?? '', 'containerd.sock');
  const id = containerID.replace('containerd://', '');
  await execute('ctr', ['-a', socket, '-n', 'k8s.io', 'tasks', ...args.split(' '), id]);
}

/** Starts again the processes that `crash` has ended. */
export async function restart(): Promise<void> {
  const { KUBECONFIG: _kubeconfig, ...env } = process.env;
  await execute(up, { env });
}

/**
 * The address of a Service in the cluster, once the Service has a pod that is ready: the controller
 * of endpoints repeats an attempt up to 16 s later where its cache is behind.
 */
export async function serviceAddress(namespace: string, name: string): Promise<string> {
  await eventually(`endpoints of ${name}`, async () =>
    (
      await kubectl(
        `--namespace ${namespace} get endpointslices -l kubernetes.io/service-name=${name} -o jsonpath={.items[*].endpoints[*].conditions.ready}`,
      )
    ).includes('true'),
  );
  return kubectl(`--namespace ${namespace} get service ${name} -o jsonpath={.spec.clusterIP}`);
}
