import { execFile } from 'node:child_process';
import { createHash, X509Certificate } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import type { Account } from '../../support/oidc-provider.ts';
import { privateAuthority, type PrivateAuthority } from '../../support/private-authority.ts';
import { apply, kubectl } from './cluster.ts';
import type { Target } from './network-policies.ts';
import { startServer } from './server.ts';

const execute = promisify(execFile);
const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));
const name = 'identity';
const port = 8080;
/** Defines `require`, which dependencies of the provider call. */
const banner =
  "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";

export interface IdentityOptions {
  readonly namespace: string;
  /** Any image with Node and curl. */
  readonly image: string;
  readonly gatewayUrl: string;
  readonly accounts: Readonly<Record<string, Account>>;
}

export interface IdentityOfCluster extends AsyncDisposable {
  /** The issuer: by address, as a cluster of test/cluster resolves no names. */
  readonly url: string;
  readonly target: Target;
  /** Has issued a certificate for the provider and the host of the gateway. */
  readonly authority: PrivateAuthority;
  /** SHA-256 of the public key of that certificate, in Base64. */
  readonly keyHash: string;
  setGroups(account: string, groups: readonly string[]): Promise<void>;
}

/** The provider `oidc-provider` in a pod, with a certificate of a private authority. */
export async function startIdentityOfCluster({
  namespace,
  image,
  gatewayUrl,
  accounts,
}: IdentityOptions): Promise<IdentityOfCluster> {
  const inTools = (args: string | readonly string[]) =>
    kubectl(['--namespace', namespace, ...(typeof args === 'string' ? args.split(' ') : args)]);
  const metadata = { name, namespace, labels: { app: name } };
  // The certificate has the address, so that the Service comes first.
  await apply({
    apiVersion: 'v1',
    kind: 'Service',
    metadata,
    spec: { selector: metadata.labels, ports: [{ port }] },
  });
  const host = await inTools(`get service ${name} -o jsonpath={.spec.clusterIP}`);
  const url = `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
  const authority = privateAuthority([host, new URL(gatewayUrl).hostname]);
  const { stdout: program } = await execute(
    path('../../../node_modules/.bin/esbuild'),
    [
      // oidc-provider tells its records apart by the names of its classes.
      ...['--bundle', '--platform=node', '--format=esm', '--minify', '--keep-names'],
      `--banner:js=${banner}`,
      path('identity-main.ts'),
    ],
    { maxBuffer: 8 * 1024 * 1024 },
  );
  // An object has at most 1 MiB, and `kubectl apply` would store the program twice.
  await kubectl(
    'create -f -',
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata,
      binaryData: { 'identity.mjs.gz': gzipSync(program).toString('base64') },
    }),
  );
  await apply({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata,
    stringData: {
      'settings.json': JSON.stringify({ url, gatewayUrl, accounts }),
      'tls.crt': authority.cert,
      'tls.key': authority.key,
    },
  });
  await startServer({
    namespace,
    name,
    container: {
      image,
      command: [
        ...['/bin/sh', '-c'],
        'gunzip -c /program/identity.mjs.gz >/tmp/identity.mjs && exec node /tmp/identity.mjs',
      ],
      readinessProbe: { tcpSocket: { port }, periodSeconds: 1 },
      volumeMounts: [
        { name: 'program', mountPath: '/program' },
        { name: 'settings', mountPath: '/settings' },
      ],
    },
    volumes: [
      { name: 'program', configMap: { name } },
      { name: 'settings', secret: { secretName: name } },
    ],
  });
  const pod = await inTools(`get pods -l app=${name} -o jsonpath={.items[0].metadata.name}`);
  const publicKey = new X509Certificate(authority.cert).publicKey.export({
    type: 'spki',
    format: 'der',
  });
  return {
    url,
    target: {
      namespace,
      pod,
      address: await inTools(`get pod ${pod} -o jsonpath={.status.podIP}`),
      port,
    },
    authority,
    keyHash: createHash('sha256').update(publicKey).digest('base64'),
    setGroups: async (account, groups) => {
      await inTools([
        ...['exec', pod, '--', 'curl', '--silent', '--show-error', '--fail-with-body'],
        ...['--data', JSON.stringify(groups), `http://127.0.0.1:8081/${account}`],
      ]);
    },
    async [Symbol.asyncDispose]() {
      await inTools(
        `delete deployment/${name} service/${name} configmap/${name} secret/${name} --wait=false`,
      );
    },
  };
}
