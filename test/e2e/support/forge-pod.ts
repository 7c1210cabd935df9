import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { forgeOf, startedSchema, type Forge } from '../../forge/support/forge.ts';
import { eventually } from '../../support/eventually.ts';
import { kubectlPath } from '../../support/kubectl.ts';
import { apply, kubeconfig, kubectl, serviceAddress, stateFolder } from './cluster.ts';
import type { Target } from './network-policies.ts';
import { PortForward } from './port-forward.ts';

const execute = promisify(execFile);
const sources = fileURLToPath(new URL('../../forge/', import.meta.url));
const name = 'forge';
const port = 3000;

export interface ForgeOfCluster {
  /** The `url` is the way of this machine, which pods may not have. */
  readonly forge: Forge;
  /** Base URL in the cluster. */
  readonly url: string;
  readonly target: Target;
}

/** Gitea in a pod of any image with git, curl and Node; its files are copied into the pod. */
export async function startForgeOfCluster(
  namespace: string,
  image: string,
): Promise<ForgeOfCluster> {
  const { stdout } = await execute(join(sources, 'build'));
  const built = stdout.trim();
  const metadata = { name, namespace, labels: { app: name } };
  await apply(
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata,
      spec: {
        automountServiceAccountToken: false,
        terminationGracePeriodSeconds: 1,
        containers: [
          {
            name,
            image,
            command: ['sleep', 'infinity'],
            env: [{ name: 'XDG_CACHE_HOME', value: '/forge/cache' }],
            volumeMounts: [{ name, mountPath: '/forge' }],
          },
        ],
        volumes: [{ name, emptyDir: {} }],
      },
    },
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata,
      spec: { selector: { app: name }, ports: [{ port }] },
    },
  );
  const inTools = (args: string) => kubectl(`--namespace ${namespace} ${args}`);
  await inTools(`wait --for=condition=Ready pod/${name} --timeout=60s`);
  await copyInto(namespace, built);
  // By address: a cluster of test/cluster resolves no names.
  const url = `http://${await serviceAddress(namespace, name)}:${port}`;
  const started = startedSchema.parse(
    JSON.parse(await inTools(`exec ${name} -- /forge/scripts/up /forge/state ${port} ${url}`)),
  );
  const forward =
    stateFolder === undefined
      ? await PortForward.open(namespace, `service/${name}`, port)
      : undefined;
  const address = await inTools(`get pod ${name} -o jsonpath={.status.podIP}`);
  const ownUrl = forward?.url ?? url;
  // The node learns of the endpoints of a Service a little later.
  await eventually('the forge to answer', async () => (await fetch(ownUrl)).ok);
  return {
    forge: forgeOf({ ...started, url: ownUrl }, async () => {
      forward?.close();
      await inTools(`delete pod/${name} service/${name} --wait=false`);
    }),
    url,
    target: { namespace, pod: name, address, port },
  };
}

/** The scripts, and what they have built, at the paths where the scripts find it. */
async function copyInto(namespace: string, built: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'forge-pod-'));
  try {
    for (const file of ['build', 'up', 'settings.sh', 'main.go', 'go.mod', 'go.sum'])
      cpSync(join(sources, file), join(folder, 'scripts', file));
    cpSync(built, join(folder, 'cache/conversation-operator/forge', basename(built)), {
      recursive: true,
    });
    for (const part of ['scripts', 'cache'])
      await execute(
        kubectlPath(),
        ['--kubeconfig', kubeconfig, '--namespace', namespace, 'cp', part, `${name}:/forge/`],
        { cwd: folder, env: { PATH: process.env['PATH'], HOME: '/nonexistent' } },
      );
  } finally {
    rmSync(folder, { recursive: true });
  }
}
