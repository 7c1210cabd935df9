import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConnection } from '../src/kubeconfig.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'kubeconfig-test-'));
});
afterEach(() => rm(folder, { recursive: true }));

const base64 = (text: string) => Buffer.from(text).toString('base64');

async function file(name: string, text: string): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, text);
  return path;
}

const kubeconfig = (
  user: string,
  cluster = '{ server: "https://cluster:6443" }',
  context = 'namespace: team, ',
) => `
apiVersion: v1
kind: Config
current-context: here
contexts: [{ name: here, context: { ${context}cluster: c, user: u } }]
clusters: [{ name: c, cluster: ${cluster} }]
users: [{ name: u, user: ${user} }]
`;

/** Options with which only the files of a test are found. */
const nowhere = () => ({ environment: { HOME: folder }, serviceAccountFolder: folder });

describe('loadConnection', () => {
  it('reads a token', async () => {
    const path = await file('config', kubeconfig('{ token: secret }'));
    expect(await loadConnection({ kubeconfig: path })).toEqual({
      connection: { server: 'https://cluster:6443', token: 'secret', insecure: false },
      namespace: 'team',
      context: 'here',
    });
  });

  it("reads certificates, the name to expect in the server's, and that it need not be valid", async () => {
    const cluster = `{ server: "https://cluster:6443", certificate-authority-data: ${base64('CA')}, tls-server-name: other, insecure-skip-tls-verify: true }`;
    const user = `{ client-certificate-data: ${base64('CERT')}, client-key-data: ${base64('KEY')} }`;
    const path = await file('config', kubeconfig(user, cluster, ''));
    expect(await loadConnection({ kubeconfig: path })).toEqual({
      connection: {
        server: 'https://cluster:6443',
        ca: 'CA',
        cert: 'CERT',
        key: 'KEY',
        serverName: 'other',
        insecure: true,
      },
      namespace: 'default',
      context: 'here',
    });
  });

  it('uses the context that is named, and names those there are', async () => {
    const two = kubeconfig('{ token: secret }').replace(
      'contexts: [',
      'contexts: [{ name: there, context: { namespace: far, cluster: c, user: u } }, ',
    );
    const path = await file('config', two);
    expect(await loadConnection({ kubeconfig: path, context: 'there' })).toMatchObject({
      namespace: 'far',
      context: 'there',
    });
    await expect(loadConnection({ kubeconfig: path, context: 'nowhere' })).rejects.toThrow(
      "there is no context 'nowhere', only there, here",
    );
  });

  it('asks a plugin for the token', async () => {
    const credential = {
      apiVersion: 'client.authentication.k8s.io/v1',
      kind: 'ExecCredential',
      status: { token: 'fresh' },
    };
    const script = `process.stdout.write(${JSON.stringify(JSON.stringify(credential))})`;
    const user = JSON.stringify({
      exec: { apiVersion: credential.apiVersion, command: process.execPath, args: ['-e', script] },
    });
    const { connection } = await loadConnection({
      kubeconfig: await file('config', kubeconfig(user)),
    });
    expect(
      typeof connection.token === 'function' ? await connection.token() : connection.token,
    ).toBe('fresh');
  });

  it('merges the files of KUBECONFIG that are there', async () => {
    const first = await file('first', 'apiVersion: v1\nkind: Config\ncurrent-context: here\n');
    const second = await file('second', kubeconfig('{ token: secret }'));
    const environment = { KUBECONFIG: [first, join(folder, 'missing'), second].join(':') };
    expect((await loadConnection({ ...nowhere(), environment })).connection.server).toBe(
      'https://cluster:6443',
    );
  });

  it('takes the service account of its pod, and reads its token anew each time', async () => {
    await Promise.all([
      file('token', 'first\n'),
      file('ca.crt', 'CA\n'),
      file('namespace', 'system'),
    ]);
    const environment = {
      HOME: folder,
      KUBERNETES_SERVICE_HOST: 'fd00::1',
      KUBERNETES_SERVICE_PORT: '443',
    };
    const { connection, namespace, context } = await loadConnection({
      environment,
      serviceAccountFolder: folder,
    });
    expect({ server: connection.server, ca: connection.ca, namespace, context }).toEqual({
      server: 'https://[fd00::1]:443',
      ca: 'CA',
      namespace: 'system',
      context: '',
    });
    await file('token', 'second\n');
    expect(
      typeof connection.token === 'function' ? await connection.token() : connection.token,
    ).toBe('second');
  });

  const failures: [string, () => Promise<Parameters<typeof loadConnection>[0]>, RegExp][] = [
    [
      'there is no cluster',
      () => Promise.resolve(nowhere()),
      /^no cluster found: give a kubeconfig/,
    ],
    [
      'the file is missing',
      () => Promise.resolve({ kubeconfig: join(folder, 'missing') }),
      /^can't read kubeconfig .*missing: .*ENOENT/,
    ],
    [
      'the file is no YAML',
      async () => ({ kubeconfig: await file('config', '{') }),
      /^can't read kubeconfig/,
    ],
    [
      'the context names no cluster',
      async () => ({
        kubeconfig: await file('config', 'apiVersion: v1\nkind: Config\ncurrent-context: lost\n'),
      }),
      /the current context 'lost' names no cluster$/,
    ],
    [
      'the server is no URL',
      async () => ({ kubeconfig: await file('config', kubeconfig('{}', '{ server: nonsense }')) }),
      /not a server's URL: 'nonsense'$/,
    ],
    [
      'a proxy is wanted',
      async () => ({
        kubeconfig: await file(
          'config',
          kubeconfig('{}', '{ server: "https://a", proxy-url: "http://b" }'),
        ),
      }),
      /proxy-url is not supported$/,
    ],
    [
      'a password is wanted',
      async () => ({
        kubeconfig: await file('config', kubeconfig('{ username: a, password: b }')),
      }),
      /use a token$/,
    ],
    [
      'the plugin fails',
      async () => ({
        kubeconfig: await file(
          'config',
          kubeconfig(
            `{ exec: { apiVersion: v1, command: "${process.execPath}", args: ["-e", "throw 1"] } }`,
          ),
        ),
      }),
      /no credentials: /,
    ],
    [
      'a service account has no server',
      async () => {
        await file('token', 'secret');
        return nowhere();
      },
      /KUBERNETES_SERVICE_HOST/,
    ],
  ];
  it.each(failures)('says in one line that %s', async (_what, options, message) => {
    const error = await loadConnection(await options()).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toMatchObject({
      name: 'KubeconfigError',
      message: expect.stringMatching(message) as unknown,
    });
    expect((error as Error).message).not.toContain('\n');
  });
});
