import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { kubectl } from './cluster.ts';
import { startServer } from './server.ts';

const execute = promisify(execFile);
const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));

/**
 * Starts the mock model beside the git server, which sandboxes may reach, on any image with Node;
 * returns the base URL.
 */
export async function startModelServer(namespace: string, image: string): Promise<string> {
  const bundle = ['--bundle', '--platform=node', '--format=esm', '--minify', path('model-main.ts')];
  const { stdout } = await execute(path('../../../node_modules/.bin/esbuild'), bundle, {
    maxBuffer: 8 * 1024 * 1024,
  });
  const metadata = { name: 'model', namespace };
  // Too large for the annotation of `kubectl apply`.
  await kubectl(
    'create -f -',
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata,
      data: { 'model.mjs': stdout },
    }),
  );
  const container = {
    image,
    command: ['node', '/program/model.mjs'],
    readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1 },
    volumeMounts: [{ name: 'program', mountPath: '/program' }],
  };
  const volumes = [{ name: 'program', configMap: { name: 'model' } }];
  return `${await startServer({ namespace, name: 'model', container, volumes })}/v1`;
}
