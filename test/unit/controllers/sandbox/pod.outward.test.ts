import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildPod, type SandboxOutward } from '../../../../src/controllers/sandbox/pod.ts';
import { podFailure } from '../../../../src/controllers/sandbox/pod-failure.ts';
import { agentKinds, type AgentKind } from '../../../../src/resources/agent-settings.ts';
import type { AcpSettings } from '../../../../src/resources/acp-settings.ts';
import type { SandboxTemplateSpec } from '../../../../src/resources/sandbox-template.ts';
import { aContainer, aPod, aSandbox, aTemplate } from '../../../support/builders.ts';
import { readJavaTrustStore } from '../../../support/java-trust-store.ts';
import { privateAuthority } from '../../../support/private-authority.ts';

type PodSpec = NonNullable<SandboxTemplateSpec['podTemplate']['spec']>;
type Container = PodSpec['containers'][number];

interface Wish {
  readonly container?: Partial<Container>;
  readonly pod?: Partial<PodSpec>;
  readonly acp?: Partial<AcpSettings>;
  readonly outward?: SandboxOutward;
  readonly namespace?: string;
}

const callback = 'co-agent-side.agents';
const inside = `${callback}.svc,${callback},localhost,127.0.0.1,::1`;
const company: SandboxOutward = {
  proxy: {
    https: 'http://proxy:3128',
    http: 'http://proxy:3129',
    noProxy: ['.corp.example', '.svc'],
  },
};

function specOf(kind: AgentKind, wish: Wish) {
  const { container, pod, acp, outward, namespace = 'default' } = wish;
  const template = aTemplate({
    agent: {
      port: 8000,
      workingDir: '/workspace',
      kind,
      ...(kind === 'acp' ? { acp: { agent: 'codex', allowAlways: false, ...acp } } : {}),
    },
    podTemplate: {
      spec: {
        containers: [
          { name: 'agent', image: 'agent:1', ...container },
          { name: 'database', image: 'database:1' },
        ],
        ...pod,
      },
    },
  });
  const { spec } = buildPod(aSandbox(), template, {
    bootstrapKey: 'bootstrap-key',
    agentSide: { url: `http://${callback}.svc`, namespace },
    outward,
  });
  expect(spec?.containers[1]?.env).toBeUndefined();
  return spec;
}

/** Variables about proxies, in the order in which a kubelet resolves them. */
const proxyOf = (kind: AgentKind, wish: Wish = {}) =>
  Object.fromEntries(
    (specOf(kind, wish)?.containers[0]?.env ?? [])
      .filter(({ name }) => /proxy/i.test(name))
      .map(({ name, value, valueFrom }) => [name, valueFrom ?? value]),
  );

const both = (value: string) => ({ NO_PROXY: value, no_proxy: value });
const env = (variables: Readonly<Record<string, string>>): Wish => ({
  container: { env: Object.entries(variables).map(([name, value]) => ({ name, value })) },
});

describe.each(agentKinds)('the environment of an agent of the kind %s', (kind) => {
  it.each<[string, Wish, object]>([
    ['lists the gateway where nothing names a proxy, as an image may', {}, both(inside)],
    [
      'lists the gateway where a template names a proxy alone',
      env({ http_proxy: 'http://own:1' }),
      { http_proxy: 'http://own:1', ...both(inside) },
    ],
    [
      'adds the gateway to the list of a template, in the other spelling too',
      env({ http_proxy: 'http://own:1', NO_PROXY: '.svc, 10.0.0.0/8' }),
      { http_proxy: 'http://own:1', ...both(`.svc, 10.0.0.0/8,${inside}`) },
    ],
    [
      'keeps two lists of a template apart, and names no host twice',
      env({ NO_PROXY: 'a,localhost', no_proxy: 'b' }),
      {
        NO_PROXY: `a,localhost,${callback}.svc,${callback},127.0.0.1,::1`,
        no_proxy: `b,${inside}`,
      },
    ],
    ['keeps a star, which is all hosts only while it is alone', env({ NO_PROXY: '*' }), both('*')],
    [
      'has the proxy of all sandboxes in both spellings',
      { outward: company },
      {
        HTTPS_PROXY: 'http://proxy:3128',
        https_proxy: 'http://proxy:3128',
        HTTP_PROXY: 'http://proxy:3129',
        http_proxy: 'http://proxy:3129',
        NODE_USE_ENV_PROXY: '1',
        ...both(`.corp.example,.svc,${inside}`),
      },
    ],
    [
      'has what the template names before that, in either spelling',
      {
        ...env({ https_proxy: 'http://own:1', HTTP_PROXY: '', no_proxy: 'own' }),
        outward: company,
      },
      { https_proxy: 'http://own:1', HTTP_PROXY: '', ...both(`own,${inside}`) },
    ],
    [
      'refers to a list that the kubelet alone knows',
      {
        container: {
          env: [
            { name: 'NO_PROXY', valueFrom: { configMapKeyRef: { name: 'proxy', key: 'none' } } },
          ],
        },
      },
      {
        TEMPLATE_NO_PROXY_0: { configMapKeyRef: { name: 'proxy', key: 'none' } },
        NO_PROXY: `$(TEMPLATE_NO_PROXY_0),${inside}`,
        TEMPLATE_NO_PROXY_1: { configMapKeyRef: { name: 'proxy', key: 'none' } },
        no_proxy: `$(TEMPLATE_NO_PROXY_1),${inside}`,
      },
    ],
    [
      'refers to a list that whole ConfigMaps may have',
      { container: { envFrom: [{ configMapRef: { name: 'proxy' } }] } },
      { NO_PROXY: `$(NO_PROXY),${inside}`, no_proxy: `$(no_proxy),${inside}` },
    ],
    [
      'has the hosts without a proxy of all sandboxes where the image names the proxy',
      { outward: { proxy: { noProxy: ['.corp.example'] } } },
      both(`.corp.example,${inside}`),
    ],
    ['has nothing of that where sandboxes do not reach a gateway', { namespace: 'another' }, {}],
    [
      'has the proxy of all sandboxes there too',
      { namespace: 'another', outward: { proxy: { https: 'http://p:1', noProxy: [] } } },
      {
        HTTPS_PROXY: 'http://p:1',
        https_proxy: 'http://p:1',
        NODE_USE_ENV_PROXY: '1',
        ...both('localhost,127.0.0.1,::1'),
      },
    ],
  ])('%s', (_sentence, wish, expected) => {
    expect(proxyOf(kind, wish)).toEqual(expected);
  });

  it('lists the relay for models too, where that is not at the gateway', () => {
    const { spec } = buildPod(aSandbox(), aTemplate(), {
      bootstrapKey: 'bootstrap-key',
      agentSide: {
        url: 'http://gateway.a.svc',
        modelsUrl: 'http://models.a.svc',
        namespace: 'default',
      },
    });
    expect(spec?.containers[0]?.env).toContainEqual({
      name: 'no_proxy',
      value: 'gateway.a.svc,gateway.a,models.a.svc,models.a,localhost,127.0.0.1,::1',
    });
  });

  it('has an address of IPv6 without brackets', () => {
    const { spec } = buildPod(aSandbox(), aTemplate(), {
      bootstrapKey: 'bootstrap-key',
      agentSide: { url: 'http://[fd00::7]:8083', namespace: 'default' },
    });
    expect(spec?.containers[0]?.env).toContainEqual({
      name: 'no_proxy',
      value: 'fd00::7,localhost,127.0.0.1,::1',
    });
  });
});

describe('the own environment of an agent of the Agent Client Protocol', () => {
  const acpEnv = (own: Readonly<Record<string, string>>, outward: SandboxOutward = {}) => {
    const { containers } = specOf('acp', { acp: { env: own }, outward }) ?? {};
    const found = containers?.[0]?.env?.find(({ name }) => name === 'ACP_ENV');
    return JSON.parse(found?.value ?? 'null') as unknown;
  };

  it.each<[string, Record<string, string>, object]>([
    ['stays as it is without a list', { HTTPS_PROXY: 'http://p:1' }, { HTTPS_PROXY: 'http://p:1' }],
    ['lists the gateway', { NO_PROXY: '.svc' }, both(`.svc,${inside}`)],
  ])('%s', (_sentence, own, expected) => {
    expect(acpEnv(own)).toEqual(expected);
  });

  it('precedes the proxy of all sandboxes in both spellings', () => {
    expect(acpEnv({ HTTPS_PROXY: 'http://p:1' }, company)).toEqual({
      HTTPS_PROXY: 'http://p:1',
      https_proxy: 'http://p:1',
    });
  });
});

it.each(agentKinds)(
  'a variable of the agent %s that refers to another one still finds it',
  (kind) => {
    const names = ['DOMAIN', 'NO_PROXY', 'JAVA_OPTS', 'PROXY_OF_KUBELET'];
    const variables = [
      { name: 'DOMAIN', value: 'corp.example' },
      { name: 'NO_PROXY', value: '.$(DOMAIN)' },
      { name: 'JAVA_OPTS', value: '-Dhttp.nonProxyHosts=$(NO_PROXY)' },
      { name: 'no_proxy', valueFrom: { configMapKeyRef: { name: 'proxy', key: 'none' } } },
      { name: 'PROXY_OF_KUBELET', value: '$(no_proxy)' },
    ];
    const made = specOf(kind, { container: { env: variables } })?.containers[0]?.env ?? [];
    // As the kubelet does it: a reference has the value of a variable before it.
    const values = new Map<string, string>();
    for (const { name, value = 'of the ConfigMap' } of made)
      values.set(
        name,
        value.replaceAll(/\$\((\w+)\)/g, (text, other: string) => values.get(other) ?? text),
      );
    expect(names.map((name) => values.get(name))).toEqual([
      'corp.example',
      `.corp.example,${inside}`,
      `-Dhttp.nonProxyHosts=.corp.example,${inside}`,
      `of the ConfigMap,${inside}`,
    ]);
    expect(values.get('no_proxy')).toBe(`of the ConfigMap,${inside}`);
  },
);

const trust = { kind: 'ConfigMap', name: 'company-ca', key: 'ca.crt' } as const;

describe.each(agentKinds)('certificates for an agent of the kind %s', (kind) => {
  const certificates = '/etc/conversation-operator/trust';

  it('come into a file with the roots of the image, before the agent starts', () => {
    const resources = { limits: { memory: '2Gi' } };
    const spec = specOf(kind, {
      outward: { trust },
      container: { imagePullPolicy: 'Never', resources, securityContext: { runAsUser: 7 } },
      pod: { initContainers: [{ name: 'prepare', image: 'prepare:1' }] },
    });
    expect(spec?.initContainers?.map(({ name }) => name)).toEqual([
      'conversation-operator-trust',
      'prepare',
    ]);
    expect(spec?.initContainers?.[0]).toMatchObject({
      image: 'agent:1',
      imagePullPolicy: 'Never',
      resources,
      securityContext: {
        runAsUser: 7,
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
      },
    });
    expect(spec?.volumes).toContainEqual({
      name: 'conversation-operator-trust-source',
      configMap: { name: 'company-ca', optional: true, items: [{ key: 'ca.crt', path: 'ca.crt' }] },
    });
    expect(spec?.containers[0]?.volumeMounts).toContainEqual({
      name: 'conversation-operator-trust',
      mountPath: certificates,
      readOnly: true,
    });
    const value = `${certificates}/all.crt`;
    expect(spec?.containers[0]?.env).toEqual(
      expect.arrayContaining([
        { name: 'NODE_EXTRA_CA_CERTS', value: `${certificates}/added.crt` },
        ...['SSL_CERT_FILE', 'CURL_CA_BUNDLE', 'GIT_SSL_CAINFO', 'REQUESTS_CA_BUNDLE'].map(
          (name) => ({ name, value }),
        ),
        { name: 'JAVA_TOOL_OPTIONS', value: `-Djavax.net.ssl.trustStore=${certificates}/cacerts` },
      ]),
    );
  });

  it('and the proxy come to Java after variables to which its options refer', () => {
    const own = { HEAP: '1g', JAVA_TOOL_OPTIONS: '-Xmx$(HEAP)', LAST: 'last' };
    const wish = { ...env(own), outward: { ...company, trust } };
    const variables = (specOf(kind, wish)?.containers[0]?.env ?? []).slice(0, 3);
    expect(variables.map(({ name }) => name)).toEqual(['HEAP', 'JAVA_TOOL_OPTIONS', 'LAST']);
    expect(variables[1]?.value).toMatch(
      /^-Djavax\S+ -Dhttps.proxyHost=proxy .*\|\*\.svc\|co-agent-side\.agents\.svc\|.* -Xmx\$\(HEAP\)$/,
    );
  });

  it('come from a Secret too', () => {
    const spec = specOf(kind, { outward: { trust: { ...trust, kind: 'Secret' } } });
    expect(spec?.volumes).toContainEqual({
      name: 'conversation-operator-trust-source',
      secret: {
        secretName: 'company-ca',
        optional: true,
        items: [{ key: 'ca.crt', path: 'ca.crt' }],
      },
    });
  });

  it('give way to the files of the template', () => {
    const own = { GIT_SSL_CAINFO: '/own.crt' };
    const variables = specOf(kind, { ...env(own), outward: { trust } })?.containers[0]?.env ?? [];
    expect(variables.filter(({ name }) => name === 'GIT_SSL_CAINFO')).toEqual([
      { name: 'GIT_SSL_CAINFO', value: '/own.crt' },
    ]);
  });

  it('are in no pod where there are none', () => {
    expect(JSON.stringify(specOf(kind, {}))).not.toContain('trust');
  });
});

describe('the program that leaves the certificates', () => {
  let folder: string;
  beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'trust-'))));
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const fileOf = (name: string): string => {
    if (name === 'node') return process.execPath;
    const asked =
      name === 'python3'
        ? `python3 -c 'import os, sys; print(os.path.realpath(sys.executable))'`
        : `command -v ${name}`;
    return execFileSync('sh', ['-c', asked], { encoding: 'utf8' }).trim();
  };

  /** A folder for PATH with these programs of this machine alone. */
  const only = (...names: readonly string[]): string => {
    const bin = join(folder, 'bin');
    mkdirSync(bin);
    for (const name of names) symlinkSync(fileOf(name), join(bin, name));
    return bin;
  };

  const run = (path = process.env['PATH']) => {
    const { command = [], args = [] } = specOf('openhands', { outward: { trust } })
      ?.initContainers?.[0] ?? { command: [], args: [] };
    const [program = '', ...rest] = [...command, ...args];
    const own = rest.map((text) =>
      text
        .replace('/etc/conversation-operator/trust-source', folder)
        .replace(/^\/etc\/conversation-operator\/trust$/, folder),
    );
    const started = ['env', `PATH=${path}`, program];
    // A container has no capability by which root would write read-only files.
    const [file = '', ...before] =
      process.getuid?.() === 0 ? ['setpriv', '--bounding-set=-all', ...started] : started;
    return execFileSync(file, [...before, ...own], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
  };

  it('adds the certificates to the roots of the image', () => {
    writeFileSync(join(folder, 'ca.crt'), 'OURS\n');
    run();
    expect(readFileSync(join(folder, 'added.crt'), 'utf8')).toBe('OURS\n');
    const all = readFileSync(join(folder, 'all.crt'), 'utf8');
    expect(all).toMatch(/-----END CERTIFICATE-----\s+OURS\n$/);
  });

  it('runs again in the same pod, as after a restart of its node, with other certificates', () => {
    writeFileSync(join(folder, 'ca.crt'), 'OLD\n');
    run();
    writeFileSync(join(folder, 'ca.crt'), 'NEW\n');
    run();
    expect(readFileSync(join(folder, 'added.crt'), 'utf8')).toBe('NEW\n');
    expect(readFileSync(join(folder, 'all.crt'), 'utf8')).toMatch(/-----\s+NEW\n$/);
  });

  const storeOf = () => [
    ...readJavaTrustStore(readFileSync(join(folder, 'cacerts')), 'changeit').values(),
  ];

  it.each(['python3', 'node'])('leaves the same certificates for Java by %s', (language) => {
    const { ca } = privateAuthority(['localhost']);
    writeFileSync(join(folder, 'ca.crt'), ca);
    run(only('rm', 'cat', 'chmod', language));
    const all = readFileSync(join(folder, 'all.crt'), 'utf8');
    const expected = all.match(/-----BEGIN[^-]*-----[^-]*-----END[^-]*-----/g) ?? [];
    const store = storeOf();
    expect(expected.length).toBeGreaterThan(1);
    expect(store.map(({ raw }) => raw.toString('hex'))).toEqual([
      ...new Set(expected.map((pem) => new X509Certificate(pem).raw.toString('hex'))),
    ]);
    expect(store.at(-1)?.subject).toBe('CN=Private authority');
  });

  it.each(['python3', 'node'])('leaves out by %s what Java can not read', (language) => {
    const { ca, key } = privateAuthority(['localhost']);
    const curve = ['ec_paramgen_curve:P-256', 'ec_param_enc:explicit'];
    const withoutNamedCurve = execFileSync(
      'openssl',
      [
        ...['req', '-x509', '-newkey', 'ec', ...curve.flatMap((option) => ['-pkeyopt', option])],
        ...['-nodes', '-keyout', join(folder, 'key'), '-subj', '/CN=Explicit', '-days', '2'],
      ],
      { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] },
    );
    const block = (text: string) =>
      `-----BEGIN CERTIFICATE-----\n${text}\n-----END CERTIFICATE-----\n`;
    const half = ca.slice(0, ca.length / 2);
    writeFileSync(
      join(folder, 'ca.crt'),
      [
        ...['Our authorities:\r\n', withoutNamedCurve, block('AAAA'), block('no base64 \u00e4!')],
        ...[key, half, '\n', ca.replaceAll('\n', '\r\n'), 'between\n', ca, half],
      ].join(''),
    );
    run(only('rm', 'cat', 'chmod', language));
    const added = storeOf().filter(({ subject }) =>
      /CN=(Private authority|Explicit)/.test(subject),
    );
    expect(added.map(({ raw }) => raw)).toEqual([new X509Certificate(ca).raw]);
  });

  it('leaves no file for Java, which then keeps its own, where nothing can write it', () => {
    const { ca } = privateAuthority(['localhost']);
    writeFileSync(join(folder, 'ca.crt'), ca);
    run();
    expect(storeOf().at(-1)?.subject).toBe('CN=Private authority');
    run(only('rm', 'cat', 'chmod'));
    expect(existsSync(join(folder, 'cacerts'))).toBe(false);
    expect(readFileSync(join(folder, 'all.crt'), 'utf8')).toContain(ca);
  });

  it('says by name what is missing, and the sandbox does so too', () => {
    const sentence =
      "The ConfigMap company-ca with the key ca.crt does not exist in the sandbox's namespace.";
    const failed = (() => {
      try {
        run();
        return undefined;
      } catch (error) {
        return error as { readonly status: number; readonly stdout: string };
      }
    })();
    expect(failed).toMatchObject({ status: 78, stdout: `${sentence}\n` });
    const { metadata } = buildPod(aSandbox(), aTemplate(), {
      bootstrapKey: 'bootstrap-key',
      outward: { trust },
    });
    const failureOf = (status: object) => {
      const pod = aPod(aSandbox(), {
        phase: 'Pending',
        initContainerStatuses: [aContainer({ name: 'conversation-operator-trust', ...status })],
      });
      const { annotations } = metadata;
      return podFailure({
        ...pod,
        metadata: { ...pod.metadata, ...(annotations && { annotations }) },
      });
    };
    const terminated = { exitCode: 78 };
    const waiting = { reason: 'CrashLoopBackOff' };
    for (const status of [
      { state: { terminated } },
      { state: { waiting }, lastState: { terminated } },
    ])
      expect(failureOf(status)).toEqual({
        code: 'ContainerConfigError',
        message: sentence,
        policy: 'environment',
      });
    // The container has found the certificates since, or fails by something else.
    for (const status of [
      { state: { running: {} }, lastState: { terminated } },
      { state: { terminated: { exitCode: 0 } } },
    ])
      expect(failureOf(status)).toBeUndefined();
  });
});
