import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expiryAnnotation, checkLabel } from '../../src/commands/check/temporary-objects.ts';
import { runApiServer, type RunningApiServer } from '../support/api-server.ts';
import {
  aStorageClass,
  connections,
  isConnector,
  isListener,
  isTrust,
  refusal,
  startBrokenCluster,
  trustEnded,
  type BrokenCluster,
  type Fault,
} from '../support/broken-cluster.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { startOutside, type Outside } from '../support/outside.ts';
import { privateAuthority } from '../support/private-authority.ts';
import { program } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';

const account = (name: string) => ({
  apiVersion: 'v1',
  kind: 'ServiceAccount',
  metadata: { name: `conversation-operator-${name}` },
});
const template = {
  apiVersion: 'conversation-operator.dev/v1alpha1',
  kind: 'SandboxTemplate',
  metadata: { name: 'default' },
  spec: {
    podTemplate: {
      spec: {
        containers: [
          {
            name: 'agent',
            image: 'registry.example.com/agent:1',
            resources: { requests: { cpu: '100m', memory: '256Mi' } },
          },
        ],
      },
    },
  },
};

interface Finding {
  readonly code: string;
  readonly cause: string;
  readonly remedy: string;
}
interface Report {
  readonly exitCode: number;
  readonly checks: readonly {
    readonly name: string;
    readonly result: string;
    readonly notTried: readonly string[];
    readonly findings: readonly Finding[];
  }[];
}

describe('conversation-operator check', () => {
  let server: RunningApiServer;
  let cluster: BrokenCluster;
  let kubeconfig: string;
  let proxy: Outside;
  const create = async (...objects: readonly object[]) => {
    const text = objects.map((each) => JSON.stringify(each)).join('\n---\n');
    const { code, stderr } = await kubectl(server.kubeconfig, ['create', '-f', '-'], text);
    if (code !== 0) throw new Error(stderr);
  };
  const writeConfig = (name: string, url: string): string => {
    const file = join(server.folder, name);
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'a',
      clusters: [{ name: 'a', cluster: { server: url, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'a', user: { token: server.token } }],
      contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
    };
    writeFileSync(file, JSON.stringify(config));
    return file;
  };
  beforeAll(async () => {
    server = await runApiServer();
    await create(account('operator'), account('gateway'), template);
    cluster = await startBrokenCluster(server.server.url);
    proxy = await startOutside({
      authority: privateAuthority(['git.example.test']),
      http: { 'git.example.test': server.server.url },
    });
    kubeconfig = writeConfig('front', cluster.url);
  });
  afterAll(async () => {
    await proxy[Symbol.asyncDispose]();
    await cluster.close();
    await server.close();
  });
  beforeEach(() => {
    cluster.fault = {};
    proxy.refusal = undefined;
  });

  const start = (env: Readonly<Record<string, string>>, args: readonly string[]) =>
    spawn(process.execPath, [program, 'check', '--namespace', 'default', ...args], {
      env: {
        PATH: process.env['PATH'],
        KUBECONFIG: kubeconfig,
        IMAGE: 'registry.example.com/operator:1',
        GIT_HOSTS: JSON.stringify({ github: cluster.url }),
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  const run = async (
    env: Readonly<Record<string, string>> = {},
    ...args: readonly string[]
  ): Promise<{ code: number | null; stdout: string; stderr: string }> => {
    const child = start(env, args);
    const [out, err]: string[][] = [[], []];
    child.stdout.on('data', (chunk: Buffer) => out?.push(chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => err?.push(chunk.toString()));
    const [code] = (await once(child, 'close')) as [number | null];
    return { code, stdout: out?.join('') ?? '', stderr: err?.join('') ?? '' };
  };
  const report = async (
    env: Readonly<Record<string, string>> = {},
    ...args: readonly string[]
  ): Promise<Report> => {
    const { stdout, stderr } = await run(env, '--output', 'json', ...args);
    if (stdout === '') throw new Error(stderr);
    return JSON.parse(stdout) as Report;
  };
  const leftInCluster = async () => {
    const { stdout } = await kubectl(server.kubeconfig, [
      ...['get', 'pods,persistentvolumeclaims', '--selector', checkLabel, '-o', 'name'],
    ]);
    return stdout.trim();
  };

  it('finds nothing in a healthy cluster, and leaves nothing behind', async () => {
    const { code, stdout } = await run();
    expect(stdout).toMatch(
      /^errors: 0, warnings: 0, not tried or not as a whole: 0 of 18 checks$/m,
    );
    expect(code).toBe(0);
    expect(await leftInCluster()).toBe('');
  });

  const dryRunOfPod = ({ method, path, query }: Parameters<NonNullable<Fault['answer']>>[0]) =>
    method === 'POST' && path.endsWith('/pods') && query.get('dryRun') === 'All';
  const waiting = (reason: string, message: string) => ({
    phase: 'Pending',
    containerStatuses: [
      {
        name: 'check',
        image: 'image',
        imageID: '',
        restartCount: 0,
        state: { waiting: { reason, message } },
      },
    ],
  });

  /** Settings with a git host that only the proxy knows; the proxy answers with the status. */
  const behindProxy = (scheme: 'http' | 'https', status?: number) => {
    proxy.refusal = status;
    return {
      GIT_HOSTS: JSON.stringify({ github: `${scheme}://git.example.test` }),
      [`${scheme.toUpperCase()}_PROXY`]: `http://127.0.0.1:${proxy.port}`,
    };
  };

  /** Check, code, and a part of the command that fixes it, of each cluster that is broken in one way. */
  const broken: Readonly<
    Record<
      string,
      {
        readonly fault?: Fault;
        readonly env?: () => Promise<Readonly<Record<string, string>>>;
        readonly args?: readonly string[];
        readonly finds: readonly [check: string, code: string, remedy: string];
      }
    >
  > = {
    'whose git host is behind a proxy that is not set': {
      env: async () => ({
        GIT_HOSTS: JSON.stringify({ github: `http://127.0.0.1:${await freePort()}` }),
      }),
      finds: ['outward', 'HostUnreachable', '--set proxy.http='],
    },
    'whose git host has a certificate of an unknown CA': {
      env: () =>
        Promise.resolve({ GIT_HOSTS: JSON.stringify({ github: server.server.secureUrl }) }),
      finds: ['outward', 'CertificateUntrusted', '--set trust.configMap=company-ca'],
    },
    'that does not resolve names': {
      env: () => Promise.resolve({ GIT_HOSTS: '{"github":"https://git.example.invalid"}' }),
      finds: ['dns', 'NameNotResolved', 'git.example.invalid needs a record'],
    },
    'whose proxy forbids the git host': {
      env: () => Promise.resolve(behindProxy('https', 403)),
      finds: ['outward', 'ProxyRefused', 'proxy.noProxy=["git.example.test"]'],
    },
    'whose proxy wants credentials': {
      env: () => Promise.resolve(behindProxy('https', 407)),
      finds: ['outward', 'ProxyRefused', '"name":"HTTPS_PROXY"'],
    },
    'whose proxy does not reach the git host': {
      env: () => Promise.resolve(behindProxy('https', 504)),
      finds: ['outward', 'HostUnreachable', 'reach git.example.test:443'],
    },
    'whose proxy wants credentials for http': {
      env: () => Promise.resolve(behindProxy('http', 407)),
      finds: ['outward', 'ProxyRefused', '"name":"HTTP_PROXY"'],
    },
    'whose proxy may not reach the git host of http': {
      env: () => Promise.resolve(behindProxy('http', 502)),
      finds: ['outward', 'HostUnreachable', 'reach git.example.test:80'],
    },
    'whose proxy is not there': {
      env: async () => ({
        ...behindProxy('https'),
        HTTPS_PROXY: `http://127.0.0.1:${await freePort()}`,
      }),
      finds: ['outward', 'ProxyUnreachable', '--set proxy.https=http://PROXY:3128'],
    },
    'without the certificates of sandboxes': {
      env: () => Promise.resolve({ SANDBOX_TRUST_CONFIG_MAP: 'company-ca' }),
      fault: { podStatus: (line) => (isTrust(line) ? trustEnded(78) : undefined) },
      finds: [
        'trust',
        'ContainerConfigError',
        'kubectl -n default create configmap company-ca --from-file=ca.crt=company-ca.pem',
      ],
    },
    'without the certificates of the gateway': {
      env: () =>
        Promise.resolve({ TRUST_FILE: '/nonexistent/ca.crt', SANDBOX_TRUST_SECRET: 'company-ca' }),
      finds: [
        'outward',
        'CertificateUntrusted',
        'kubectl -n default create secret generic company-ca --from-file=ca.crt=company-ca.pem',
      ],
    },
    'whose API server is closed': {
      env: async () => {
        return { KUBECONFIG: writeConfig('closed', `http://127.0.0.1:${await freePort()}`) };
      },
      finds: ['api-server', 'ApiServerUnreachable', 'nc -vz 127.0.0.1'],
    },
    'without a default storage class': {
      fault: {
        answer: ({ path }) =>
          path.endsWith('/storageclasses')
            ? {
                status: 200,
                body: {
                  kind: 'StorageClassList',
                  metadata: { resourceVersion: '1' },
                  items: [aStorageClass('gp3', false)],
                },
              }
            : undefined,
      },
      finds: [
        'storage-class',
        'VolumeNotBound',
        'kubectl annotate storageclass gp3 storageclass.kubernetes.io/is-default-class=true',
      ],
    },
    'whose network plugin ignores policies': {
      fault: { podStatus: (line) => (isConnector(line) ? connections(true, true) : undefined) },
      finds: ['network-policy', 'NetworkPolicyNotEnforced', 'helm install cilium'],
    },
    'whose quota is full': {
      fault: {
        answer: ({ path }) =>
          path.endsWith('/resourcequotas')
            ? {
                status: 200,
                body: {
                  kind: 'ResourceQuotaList',
                  metadata: { resourceVersion: '1' },
                  items: [
                    {
                      metadata: { name: 'compute', uid: '1', resourceVersion: '1' },
                      spec: { hard: { 'requests.cpu': '1' } },
                      status: { hard: { 'requests.cpu': '1' }, used: { 'requests.cpu': '950m' } },
                    },
                  ],
                },
              }
            : undefined,
      },
      finds: ['quota', 'ResourceQuotaExceeded', 'patch resourcequota compute'],
    },
    'that holds pods back by a gate': {
      fault: {
        answer: (call) =>
          dryRunOfPod(call)
            ? {
                status: 201,
                body: {
                  ...call.body,
                  spec: {
                    ...(call.body['spec'] as object),
                    schedulingGates: [{ name: 'kueue.x-k8s.io/admission' }],
                  },
                },
              }
            : undefined,
      },
      finds: ['admission', 'SchedulingGated', 'kubectl get mutatingwebhookconfigurations'],
    },
    'whose namespace forbids the pods of the template': {
      fault: {
        answer: (call) =>
          dryRunOfPod(call)
            ? refusal(
                403,
                'Forbidden',
                'pods "check-dry-run" is forbidden: violates PodSecurity "restricted:latest": privileged (container "agent" must not set securityContext.privileged=true)',
              )
            : undefined,
      },
      finds: [
        'pod-security',
        'PodSecurityViolated',
        'kubectl label namespace default pod-security.kubernetes.io/enforce=privileged',
      ],
    },
    'that can not pull an image': {
      fault: {
        podStatus: (line) =>
          isConnector(line) || isListener(line)
            ? undefined
            : waiting('ErrImagePull', 'failed to pull: 401 Unauthorized'),
      },
      finds: ['images', 'ImagePullFailed', 'image.pullSecrets=[{"name":"registry"}]'],
    },
    'with definitions of an earlier version': {
      fault: {
        answer: ({ path }) =>
          path.endsWith('/customresourcedefinitions/sandboxes.conversation-operator.dev')
            ? {
                status: 200,
                body: {
                  metadata: { name: 'sandboxes.conversation-operator.dev', uid: '1' },
                  spec: {
                    versions: [
                      {
                        name: 'v1alpha1',
                        served: true,
                        storage: true,
                        schema: { openAPIV3Schema: { type: 'object', properties: {} } },
                      },
                    ],
                  },
                },
              }
            : undefined,
      },
      finds: [
        'definitions',
        'DefinitionOutdated',
        'conversation-operator crds | kubectl apply --server-side',
      ],
    },
    'whose clock is ten minutes off': {
      fault: { clockMs: 600_000 },
      finds: ['clock', 'ClockSkewed', 'chronyc makestep'],
    },
  };

  it.each(Object.keys(broken))(
    'names the cause in a cluster %s, and the command that fixes it',
    async (name) => {
      const { fault = {}, env, args = [], finds } = broken[name] as (typeof broken)[string];
      const [check, code, remedy] = finds;
      cluster.fault = fault;
      const { checks, exitCode } = await report(await env?.(), ...args);
      const found = checks.flatMap(({ name: of, findings }) =>
        findings.map((finding) => ({ check: of, ...finding })),
      );
      expect(found).toContainEqual(
        expect.objectContaining({ check, code, remedy: expect.stringContaining(remedy) as string }),
      );
      // No other check fails, except for the two sides of one cause.
      expect(new Set(found.map(({ check: of }) => of)).size).toBeLessThanOrEqual(
        check === 'dns' ? 2 : 1,
      );
      expect(exitCode).toBe(1);
      expect(await leftInCluster()).toBe('');
    },
  );

  it('trusts the certificates of TRUST_FILE', async () => {
    const file = join(server.folder, 'ca.pem');
    writeFileSync(file, server.server.ca);
    const hosts = JSON.stringify({ github: server.server.secureUrl });
    const { checks } = await report({ GIT_HOSTS: hosts, TRUST_FILE: file });
    expect(checks.find(({ name }) => name === 'outward')?.result).toBe('passed');
  });

  it('does not know whether a host or its proxy for http answers 403, and says so', async () => {
    const { checks, exitCode } = await report(behindProxy('http', 403));
    const { result, notTried } = checks.find(({ name }) => name === 'outward') ?? {};
    expect(result).toBe('not tried');
    expect(notTried?.join()).toContain(
      'answers 403: the host, or a proxy that forbids the host; curl -v -x http://127.0.0.1:',
    );
    expect(exitCode).toBe(2);
    // The same host without a refusal.
    const { checks: others } = await report(behindProxy('http'));
    expect(others.find(({ name }) => name === 'outward')?.result).toBe('passed');
  });

  it('tries the pods of sandboxes with their proxy and certificates', async () => {
    const pods: Record<string, unknown>[] = [];
    cluster.fault = {
      answer: ({ method, path, body }) => {
        if (method === 'POST' && path.endsWith('/pods')) pods.push(body);
        return undefined;
      },
    };
    const { checks } = await report({
      SANDBOX_TRUST_SECRET: 'company-ca',
      SANDBOX_TRUST_KEY: 'root.pem',
      SANDBOX_HTTPS_PROXY: 'http://proxy.example.com:3128',
    });
    expect(checks.flatMap(({ findings }) => findings)).toEqual([]);
    const withTrust = pods
      .map((pod) => JSON.stringify(pod))
      .filter((pod) => pod.includes('"secretName":"company-ca"'));
    expect(withTrust).toHaveLength(2);
    for (const pod of withTrust) expect(pod).toContain('"key":"root.pem"');
    expect(
      withTrust.filter((pod) => pod.includes('"value":"http://proxy.example.com:3128"')),
    ).toHaveLength(1);
  });

  it.each([[[]], [['--pre', '--agent-image', 'agent:1']]])(
    'says in one way that there is no namespace, with %j',
    async (more) => {
      const { checks, exitCode } = await report({}, '--namespace', 'missing', ...more);
      const reasons = checks
        .flatMap(({ notTried }) => notTried)
        .filter((reason) => /namespace|SandboxTemplate/.test(reason));
      expect(reasons.length).toBeGreaterThan(4);
      for (const reason of reasons) expect(reason).toMatch(/(^|; )there is no namespace missing$/);
      expect(exitCode).not.toBe(0);
    },
  );

  it('does not guess where it has no right, and says so by exit code 2', async () => {
    const message = 'nodes is forbidden: User "alice" cannot list resource "nodes"';
    cluster.fault = {
      answer: ({ path }) =>
        path === '/api/v1/nodes' ? refusal(403, 'Forbidden', message) : undefined,
    };
    const { checks, exitCode } = await report();
    expect(checks.filter(({ result }) => result !== 'passed')).toEqual([
      expect.objectContaining({
        name: 'architecture',
        result: 'not tried',
        notTried: [`no right: ${message}`],
      }),
    ]);
    expect(exitCode).toBe(2);
  });

  it('--pre tries the rights of the person, without an installation', async () => {
    cluster.fault = {
      answer: ({ path, body }) =>
        path.endsWith('/selfsubjectaccessreviews')
          ? {
              status: 201,
              body: {
                ...body,
                status: { allowed: !JSON.stringify(body).includes('"namespaces"') },
              },
            }
          : undefined,
    };
    const { checks, exitCode } = await report({}, '--pre', '--agent-image', 'agent:1');
    const findings = checks.flatMap(({ findings: of }) => of);
    expect(findings).toEqual([
      expect.objectContaining({
        code: 'PermissionDenied',
        cause: 'You lack the right to create namespaces in the cluster.',
        remedy: expect.stringContaining('--set sandboxes.namespace=default') as string,
      }),
    ]);
    expect(exitCode).toBe(1);
  });

  it('deletes its pods when it is interrupted, and those that an earlier check has left', async () => {
    const leftover = (name: string, expires: string) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name,
        labels: { [checkLabel]: 'earlier' },
        annotations: { [expiryAnnotation]: expires },
      },
      spec: { containers: [{ name: 'check', image: 'image' }] },
    });
    await create(
      leftover('check-earlier', '2026-01-01T00:00:00.000Z'),
      leftover('check-of-another', '2999-01-01T00:00:00.000Z'),
    );
    cluster.fault = { podStatus: () => ({ phase: 'Pending' }) };
    const child = start({}, []);
    const closed = once(child, 'close');
    await eventually('its pods, and that of another run, are there alone', async () => {
      const names = (await leftInCluster()).split('\n').filter((name) => name.startsWith('pod/'));
      return names.length === 4 + 1 && !names.includes('pod/check-earlier');
    });
    child.kill('SIGTERM');
    const [code] = (await closed) as [number | null];
    expect(code).toBe(2);
    expect(await leftInCluster()).toBe('pod/check-of-another');
    await kubectl(server.kubeconfig, ['delete', 'pod', 'check-of-another', '--grace-period=0']);
  });

  const forbidden = (what: string) => refusal(403, 'Forbidden', `you may not ${what}`);

  it('deletes what it has created also where it has no right to list that', async () => {
    cluster.fault = {
      answer: ({ method, path, query }) =>
        method === 'GET' && path.endsWith('/pods') && query.has('labelSelector')
          ? forbidden('list pods')
          : undefined,
    };
    const { checks } = await report({}, '--agent-image', 'registry.example.com/agent:1');
    expect(checks.find(({ name }) => name === 'images')?.result).toBe('passed');
    expect(await leftInCluster()).toBe('');
  });

  it('names what it could not delete, and then nothing is as it was', async () => {
    cluster.fault = {
      answer: ({ method, path }) =>
        method === 'DELETE' && /[/]pods[/]check-/.test(path) ? forbidden('delete pods') : undefined,
    };
    const { checks, exitCode } = await report();
    const left = (await leftInCluster()).split('\n').map((name) => name.replace('pod/', ''));
    expect(left.length).toBeGreaterThan(1);
    const { notTried = [] } = checks.find(({ name }) => name === 'clean-up') ?? {};
    expect(notTried).toHaveLength(left.length);
    for (const name of left)
      expect(notTried.join()).toContain(`pods ${name} is left: you may not delete pods; delete it`);
    expect(exitCode).toBe(2);
    await kubectl(server.kubeconfig, [
      ...['delete', 'pods', '--selector', checkLabel, '--grace-period=0'],
    ]);
  });

  it.each([
    [['--skip', 'rainfall'], '--skip: rainfall is no check; there are api-server, dns'],
    [['--operator-account', 'operator'], '--operator-account: operator must be namespace/name'],
  ])('refuses %j', async (args, words) => {
    const { code, stderr } = await run({}, ...args);
    expect(stderr).toContain(words);
    expect(code).toBe(1);
  });
});
