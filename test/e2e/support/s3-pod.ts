import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { basename, dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { kubectlPath } from '../../support/kubectl.ts';
import { apply, kubeconfig, kubectl, serviceAddress } from './cluster.ts';
import type { Target } from './network-policies.ts';

const execute = promisify(execFile);
const build = fileURLToPath(new URL('../../services/s3/build', import.meta.url));
const name = 's3';
const port = 7070;
const health = '/health';

/** A real S3 server in a pod, as an administrator of a cluster meets one. */
export interface S3OfCluster extends AsyncDisposable {
  /** Base URL in the cluster. */
  readonly url: string;
  readonly target: Target;
  /** Entries of a Secret with the credentials. */
  readonly secret: Readonly<Record<string, string>>;
  newBucket(bucket: string): Promise<void>;
  /** The keys of the objects of a bucket, as files of the server and not through its API. */
  keys(bucket: string): Promise<readonly string[]>;
  /** The first byte of an object. */
  firstByte(bucket: string, key: string): Promise<number>;
}

/** The Versity S3 Gateway in a pod of any image with tar, curl and a shell, copied into the pod. */
export async function startS3OfCluster(namespace: string, image: string): Promise<S3OfCluster> {
  const { stdout } = await execute(build);
  const program = stdout.trim();
  const [access, secret] = [randomBytes(8), randomBytes(20)].map((bytes) => bytes.toString('hex'));
  const metadata = { name, namespace, labels: { app: name } };
  // The copy comes after the start of the container. The metadata of objects are files of their
  // own: some file systems have no extended attributes.
  const script = [
    'mkdir -p /s3/data /s3/metadata',
    'until [ -e /s3/copied ]; do sleep 0.1; done',
    `exec /s3/${basename(program)} --port :${port} --health ${health} --quiet posix --sidecar /s3/metadata /s3/data`,
  ].join(' && ');
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
            command: ['/bin/sh', '-c', script],
            env: [
              { name: 'ROOT_ACCESS_KEY', value: access },
              { name: 'ROOT_SECRET_KEY', value: secret },
              { name: 'HOME', value: '/s3' },
            ],
            readinessProbe: { httpGet: { path: health, port }, periodSeconds: 1 },
            volumeMounts: [{ name, mountPath: '/s3' }],
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
  await inTools(`wait --for=jsonpath={.status.phase}=Running pod/${name} --timeout=60s`);
  await execute(
    kubectlPath(),
    [
      ...['--kubeconfig', kubeconfig, '--namespace', namespace],
      ...['cp', basename(program), `${name}:/s3/`],
    ],
    { cwd: dirname(program), env: { PATH: process.env['PATH'], HOME: '/nonexistent' } },
  );
  await inTools(`exec ${name} -- touch /s3/copied`);
  await inTools(`wait --for=condition=Ready pod/${name} --timeout=60s`);
  // By address: a cluster of test/cluster resolves no names.
  const service = await serviceAddress(namespace, name);
  const address = await inTools(`get pod ${name} -o jsonpath={.status.podIP}`);
  const files = `find . -type f -printf '%P\\n'`;
  const inBucket = (bucket: string, command: string) =>
    kubectl([
      ...['--namespace', namespace, 'exec', name, '--', '/bin/sh', '-c'],
      `cd /s3/data/${bucket} && ${command}`,
    ]);
  return {
    url: `http://${service}:${port}`,
    target: { namespace, pod: name, address, port },
    secret: { 'access-key-id': access ?? '', 'secret-access-key': secret ?? '' },
    newBucket: async (bucket) => {
      await inTools(`exec ${name} -- mkdir /s3/data/${bucket}`);
    },
    // A put that is under way has a hidden folder of its own.
    keys: async (bucket) =>
      (await inBucket(bucket, files))
        .split('\n')
        .filter((key) => key !== '' && !key.startsWith('.'))
        .toSorted(),
    firstByte: async (bucket, key) =>
      Number(await inBucket(bucket, `head -c 1 '${key}' | od -An -tu1`)),
    async [Symbol.asyncDispose]() {
      await inTools(`delete pod/${name} service/${name} --wait=false`);
    },
  };
}
