import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { apply, kubectl } from './cluster.ts';

const execute = promisify(execFile);
const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));

/** The mock model in the cluster, on any image with Node; returns its base URL. Where the git server is, as sandboxes may reach that. */
export async function startModelServer(namespace: string, image: string): Promise<string> {
  const bundle = ['--bundle', '--platform=node', '--format=esm', '--minify', path('model-main.ts')];
  const { stdout } = await execute(path('../../../node_modules/.bin/esbuild'), bundle, { maxBuffer: 8 * 1024 * 1024 });
  const labels = { app: 'model' };
  const metadata = { name: 'model', namespace, labels };
  // Too large for the annotation of `kubectl apply`.
  await kubectl('create -f -', JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { 'model.mjs': stdout } }));
  await apply(
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata,
      spec: {
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: {
            automountServiceAccountToken: false,
            containers: [
              {
                name: 'model',
                image,
                command: ['node', '/program/model.mjs'],
                readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1 },
                volumeMounts: [{ name: 'program', mountPath: '/program' }],
              },
            ],
            volumes: [{ name: 'program', configMap: { name: 'model' } }],
          },
        },
      },
    },
    { apiVersion: 'v1', kind: 'Service', metadata, spec: { selector: labels, ports: [{ port: 8080 }] } },
  );
  await kubectl(`--namespace ${namespace} rollout status deployment model --timeout=120s`);
  // By address: a cluster of test/cluster resolves no names.
  return `http://${await kubectl(`--namespace ${namespace} get service model -o jsonpath={.spec.clusterIP}`)}:8080/v1`;
}
