import type { Node, Pod } from '@conversation-operator/kube/core';
import { ApiError, TransportError } from '@conversation-operator/kube/errors';
import { oneLine } from '../../../src/commands/terminal.ts';
import {
  admissionFindings,
  podSecurityFindings,
  needsOf,
  quotaFindings,
  roomIn,
} from '../../../src/commands/check/admission.ts';
import {
  apiServerFindings,
  clockFindings,
  skewMs,
} from '../../../src/commands/check/api-server.ts';
import { bucketFindings } from '../../../src/commands/check/bucket.ts';
import {
  definitionFindings,
  type DefinitionFacts,
  type Schema,
} from '../../../src/commands/check/definitions.ts';
import { dnsFindings } from '../../../src/commands/check/dns.ts';
import type { Finding } from '../../../src/commands/check/check.ts';
import { gitCredentialFindings } from '../../../src/commands/check/git-hosts.ts';
import { imageFindings, pullOf } from '../../../src/commands/check/images.ts';
import { networkPolicyFindings } from '../../../src/commands/check/network-policy.ts';
import {
  architectureFindings,
  runtimeClassFindings,
  selectedNodes,
} from '../../../src/commands/check/nodes.ts';
import { failureOf } from '@conversation-operator/outward/proxy-error';
import { outwardDoubts, outwardFindings } from '../../../src/commands/check/outward.ts';
import { connectFailureOf, senderOf } from '../../../src/commands/check/outward-requests.ts';
import type { ResourceQuota, StorageClass } from '../../../src/commands/check/resources.ts';
import {
  accountFindings,
  installFindings,
  installRights,
} from '../../../src/commands/check/rights.ts';
import { exitCodeOf, notTriedReason, textReport } from '../../../src/commands/check/run-checks.ts';
import { storageClassFindings, volumeFindings } from '../../../src/commands/check/volume.ts';
import {
  trustFileFindings,
  trustFindings,
  trustStateOf,
} from '../../../src/commands/check/trust.ts';
import { createErrorOf, quantityOf } from '../../../src/controllers/sandbox/create-error.ts';
import { trustName } from '../../../src/controllers/sandbox/outward.ts';

const installation = {
  release: 'conversation-operator',
  releaseNamespace: 'agents',
  accounts: { operator: 'agents/operator', gateway: 'agents/gateway' },
  areAccountsNamed: true,
};
const here = { ...installation, namespace: 'agents-sandboxes' };

/** Severity, code and a part of the command that fixes it; all findings of a table's row. */
const short = (findings: readonly Finding[] | string): readonly string[] | string =>
  typeof findings === 'string'
    ? findings
    : findings.map(({ severity, code }) => `${severity} ${code}`);
const remedyOf = (findings: readonly Finding[] | string): string =>
  typeof findings === 'string' ? '' : (findings[0]?.remedy ?? '');
const refused = (message: string) => {
  const error = createErrorOf(new ApiError(403, { code: 403, message }), 'pod');
  if (error === undefined) throw new Error('no refusal');
  return error;
};

describe('the API server', () => {
  const facts = { ...installation, server: 'https://10.0.0.1:6443', inCluster: false };
  const answer = { status: 200, date: undefined, sentMs: 0, receivedMs: 0, version: 'v1.34.1' };
  it.each([
    ['answers', answer, facts, [], ''],
    ['of an unknown version answers', { ...answer, version: undefined }, facts, [], ''],
    ['is too old', { ...answer, version: 'v1.30.9' }, facts, ['error ApiServerOutdated'], ''],
    ['refuses the credentials', { ...answer, status: 401 }, facts, ['error PermissionDenied'], ''],
    [
      'is closed to a pod',
      { failure: { kind: 'unreachable', detail: 'ETIMEDOUT' } } as const,
      { ...facts, inCluster: true },
      ['error ApiServerUnreachable'],
      'networkPolicies.apiServer.ports=[6443]',
    ],
    [
      'has a certificate of another CA',
      {
        failure: { kind: 'certificate', detail: 'SELF_SIGNED_CERT_IN_CHAIN', of: 'host' },
      } as const,
      facts,
      ['error CertificateUntrusted'],
      'certificate-authority-data',
    ],
  ])('%s', (_name, observed, about, codes, remedy) => {
    const findings = apiServerFindings(observed, about);
    expect(short(findings)).toEqual(codes);
    expect(remedyOf(findings)).toContain(remedy);
  });
});

describe('the clock', () => {
  const at = (serverMs: number) =>
    skewMs({
      status: 200,
      version: undefined,
      sentMs: 1_000_000_000,
      receivedMs: 1_000_000_200,
      date: new Date(serverMs).toUTCString(),
    });
  it.each([
    ['is the same', 1_000_000_000, []],
    ['is 60 s behind', 1_000_060_000, []],
    ['is ten minutes ahead', 999_400_000, ['error ClockSkewed']],
  ])('%s', (_name, serverMs, codes) => {
    expect(short(clockFindings(at(serverMs) ?? Number.NaN))).toEqual(codes);
  });
  it('is not known without a Date header', () => {
    const answer = { status: 200, version: undefined, sentMs: 0, receivedMs: 0 };
    expect(skewMs({ ...answer, date: undefined })).toBeUndefined();
    expect(skewMs({ ...answer, date: 'yesterday' })).toBeUndefined();
  });
});

it.each([
  [undefined, [], ''],
  ['EAI_AGAIN', ['error NameNotResolved'], 'networkPolicies.dns=[]'],
])('a name whose resolution ends in %s', (code, codes, remedy) => {
  const findings = dnsFindings([{ name: 'git.example.com', code, what: 'git' }], installation);
  expect(short(findings)).toEqual(codes);
  expect(remedyOf(findings)).toContain(remedy);
});

it('says of the DNS of the cluster what its absence breaks', () => {
  const resolution = { name: 'kubernetes.default.svc', code: 'ENOTFOUND', what: 'Services' };
  const findings = dnsFindings([{ ...resolution, isOfCluster: true }], installation);
  expect(short(findings)).toEqual(['error NameNotResolved']);
  expect(findings[0]?.breaks).toBe('Agents do not reach the Service of the gateway by its name.');
  expect(remedyOf(findings)).toContain('get pods -l k8s-app=kube-dns');
});

describe('a host outside', () => {
  const failing = (code: string) => Object.assign(new Error(code), { code });
  it.each([
    ['unresolved', failing('ENOTFOUND'), undefined, 'HostUnreachable', '--set proxy.https='],
    [
      'behind a proxy with a CA of its own',
      failureOf(failing('UNABLE_TO_VERIFY_LEAF_SIGNATURE')),
      'https://proxy:3129',
      'CertificateUntrusted',
      '--set trust.configMap=company-ca',
    ],
    [
      'with an old certificate',
      failing('CERT_HAS_EXPIRED'),
      'http://proxy:3128',
      'CertificateUntrusted',
      'openssl s_client -connect github.com:443 -proxy proxy:3128 </dev/null',
    ],
  ])('%s', (_name, error, proxy, code, remedy) => {
    const failure = connectFailureOf(error);
    const host = { origin: 'https://github.com', what: 'the git host github', proxy, failure };
    const findings = outwardFindings([host, { ...host, failure: undefined }], installation);
    expect(short(findings)).toEqual([`error ${code}`]);
    expect(remedyOf(findings)).toContain(remedy);
  });
});

describe('an answer to a request through a proxy for http', () => {
  it.each([
    [200, {}, 'host'],
    [404, {}, 'host'],
    [401, {}, 'host'],
    [403, {}, 'unknown'],
    [502, {}, 'unknown'],
    [503, {}, 'unknown'],
    [504, {}, 'unknown'],
    [403, { via: '1.1 proxy' }, 'host'],
    [503, { via: '1.1 proxy' }, 'host'],
    [403, { via: '1.1 proxy', 'x-squid-error': 'ERR_ACCESS_DENIED 0' }, 'proxy'],
    [400, { 'x-squid-error': 'ERR_INVALID_URL 0' }, 'proxy'],
    [401, { 'proxy-authenticate': 'Basic' }, 'proxy'],
    [502, { 'proxy-status': 'proxy; error=dns_error; rcode="NXDOMAIN"' }, 'proxy'],
    [502, { 'proxy-status': ['cdn', 'proxy; error=connection_refused'] }, 'proxy'],
    [503, { 'proxy-status': 'proxy; received-status=503' }, 'unknown'],
    [200, { 'proxy-status': 'proxy; error=http_upgrade_failed' }, 'host'],
  ])('of status %i with %j is of: %s', (status, headers, sender) => {
    expect(senderOf({ status, headers })).toBe(sender);
  });
  it.each([
    [403, [], 'http://git.example.com or the proxy http://proxy:3128 answers 403'],
    [503, ['error HostUnreachable'], ''],
  ])('is a doubt or a finding by its status %i', (status, codes, doubt) => {
    const host = { origin: 'http://git.example.com', what: 'the git host a' };
    const failure = { kind: 'doubt', status } as const;
    const reached = [{ ...host, proxy: 'http://proxy:3128', failure }];
    expect(short(outwardFindings(reached, installation))).toEqual(codes);
    expect(outwardDoubts(reached).join()).toContain(doubt);
    expect(outwardDoubts(reached)).toHaveLength(doubt === '' ? 0 : 1);
  });
});

describe('the certificates of sandboxes', () => {
  const trust = { kind: 'ConfigMap', name: 'company-ca', key: 'ca.crt' } as const;
  const podWith = (status: object) =>
    ({
      metadata: { name: 'check-1' },
      spec: { initContainers: [{ name: trustName }], containers: [{ name: 'check' }] },
      status,
    }) as unknown as Pod;
  const init = (state: object) =>
    podWith({
      initContainerStatuses: [{ name: trustName, image: 'i', restartCount: 0, imageID: '', state }],
    });
  const terminated = (exitCode: number, more = {}) =>
    init({ terminated: { exitCode, finishedAt: '', startedAt: '', ...more } });
  const start = { reason: 'StartError', message: 'exec: "/bin/sh": no such file' };
  it.each([
    ['are prepared', terminated(0), 'prepared', [], ''],
    [
      'are missing',
      terminated(78),
      'missing',
      ['error ContainerConfigError'],
      'kubectl -n agents-sandboxes create configmap company-ca --from-file=ca.crt=company-ca.pem --dry-run=client -o yaml | kubectl -n agents-sandboxes apply -f -',
    ],
    [
      'have no shell in the image',
      terminated(128, start),
      'failed',
      ['error ContainerStartFailed'],
      'needs /bin/sh',
    ],
    ['can not be written', terminated(1), 'failed', ['error CrashLoop'], 'needs /bin/sh'],
    ['wait for the image', init({ waiting: { reason: 'ErrImagePull' } }), 'held', [], ''],
  ])('%s', (_name, pod, kind, codes, remedy) => {
    const state = trustStateOf(pod, trust);
    expect(state?.kind).toBe(kind);
    if (state === undefined) return;
    const findings = trustFindings(state, { ...here, trust });
    expect(short(findings)).toEqual(codes);
    expect(remedyOf(findings)).toContain(remedy);
    if (kind === 'missing')
      expect(findings[0]?.cause).toBe(
        'The ConfigMap company-ca with the key ca.crt does not exist in the namespace agents-sandboxes.',
      );
  });
  it('are not known while the container runs', () => {
    expect(trustStateOf(init({ running: {} }), trust)).toBeUndefined();
    expect(trustStateOf(podWith({}), trust)).toBeUndefined();
  });
  it('are in the namespace of the release for the operator and the gateway', () => {
    const facts = { releaseNamespace: 'agents', trustFileFailure: 'TRUST_FILE must be a file' };
    const [finding] = trustFileFindings({ ...facts, sandboxOutward: { trust } });
    expect(finding?.remedy).toContain('kubectl -n agents create configmap company-ca');
    expect(finding?.cause).toBe('TRUST_FILE must be a file.');
    expect(remedyOf(trustFileFindings({ ...facts, sandboxOutward: {} }))).toContain('openssl x509');
    const none = { ...facts, trustFileFailure: undefined, sandboxOutward: {} };
    expect(trustFileFindings(none)).toEqual([]);
  });
});

it.each([
  [200, []],
  [403, []],
  [401, ['error GitCredentialRefused']],
])('a git credential that is answered by %i', (status, codes) => {
  const answers = [{ provider: 'github', host: 'api.github.com', status }];
  expect(short(gitCredentialFindings(answers, 'agents'))).toEqual(codes);
});

it.each([
  ['denied', 'create secret generic archive-credentials'],
  ['missing', 'aws s3 mb s3://history'],
  ['unavailable', '--set archive.s3.endpoint'],
  ['timeout', 'networkPolicies.archive.to'],
] as const)('a bucket whose put ends in %s', (code, remedy) => {
  const failure = { call: 'put', code, message: 'The object store answers 403' } as const;
  const findings = bucketFindings(failure, { ...installation, bucket: 'history' });
  expect(short(findings)).toEqual(['error BucketUnusable']);
  expect(remedyOf(findings)).toContain(remedy);
  expect(bucketFindings(undefined, { ...installation, bucket: 'history' })).toEqual([]);
});

describe('rights', () => {
  const right = {
    component: 'operator',
    account: 'agents/operator',
    group: '',
    resource: 'pods',
  } as const;
  it('are one finding for each account and resource', () => {
    const findings = accountFindings(
      [
        { ...right, verb: 'get', allowed: true },
        { ...right, verb: 'create', allowed: false },
        { ...right, verb: 'patch', allowed: false },
      ],
      here,
    );
    expect(findings).toEqual([
      expect.objectContaining({
        code: 'PermissionDenied',
        cause:
          'The service account agents/operator lacks the right to create, patch pods in the namespace agents-sandboxes.',
        remedy: expect.stringContaining(
          'helm -n agents get manifest conversation-operator | kubectl apply -f -',
        ) as string,
      }),
    ]);
  });
  it.each([
    ['operator', 'The operator fails'],
    ['gateway', 'The REST service answers 503'],
    ['relay', 'The relay refuses the calls of agents'],
  ] as const)(
    'of the %s say what breaks without them, whatever its account is named',
    (component, breaks) => {
      const [finding] = accountFindings(
        [{ ...right, component, account: 'agents/x-gateway', verb: 'get', allowed: false }],
        here,
      );
      expect(finding?.breaks).toContain(breaks);
    },
  );
  it('to install have the value of the chart that does without, or a binding', () => {
    const remedies = installRights.map((each) =>
      remedyOf(installFindings([{ ...each, allowed: false }], here)),
    );
    expect(remedies.filter((remedy) => !/^(helm upgrade|kubectl)/.test(remedy))).toEqual([]);
    expect(remedies.join('\n')).toContain('--set sandboxes.namespace=agents-sandboxes');
    expect(
      installFindings(
        installRights.map((each) => ({ ...each, allowed: true })),
        here,
      ),
    ).toEqual([]);
  });
});

describe('a definition', () => {
  const own: Schema = {
    type: 'object',
    properties: {
      spec: { type: 'object', properties: { mode: { type: 'string', enum: ['a', 'b'] } } },
    },
  };
  const served = { schema: own, hasVersion: true, notEstablished: undefined };
  const modes = (...values: readonly string[]): Schema => ({
    properties: {
      spec: { type: 'object', properties: { mode: { type: 'string', enum: values } } },
    },
  });
  const newer: Schema = {
    properties: {
      spec: {
        type: 'object',
        properties: { ...own.properties?.['spec']?.properties, more: { type: 'string' } },
      },
    },
  };
  it.each<[string, DefinitionFacts['served'], 'pre' | 'installed', readonly string[]]>([
    ['as this program has it', served, 'installed', []],
    ['whose values have another order', { ...served, schema: modes('b', 'a') }, 'installed', []],
    ['that is missing', undefined, 'installed', ['error DefinitionMissing']],
    ['that is missing before an installation', undefined, 'pre', []],
    ['of another version', { ...served, hasVersion: false }, 'pre', ['error DefinitionOutdated']],
    ['without a field', { ...served, schema: {} }, 'pre', ['error DefinitionOutdated']],
    ['without a value', { ...served, schema: modes('a') }, 'pre', ['error DefinitionOutdated']],
    [
      'with a field more',
      { ...served, schema: newer },
      'installed',
      ['warning DefinitionOutdated'],
    ],
    [
      'that the API server does not serve',
      { ...served, notEstablished: 'names conflict' },
      'installed',
      ['error DefinitionMissing'],
    ],
  ])('%s', (_name, there, phase, codes) => {
    const facts = { name: 'sandboxes.conversation-operator.dev', served: there, own };
    expect(short(definitionFindings([facts], phase))).toEqual(codes);
  });
});

describe('storage classes', () => {
  const aClass = (name: string, isDefault = false, provisioner = 'ebs.csi.aws.com') =>
    ({
      metadata: {
        name,
        annotations: { 'storageclass.kubernetes.io/is-default-class': String(isDefault) },
      },
      provisioner,
    }) as unknown as StorageClass;
  it.each([
    ['a default one', undefined, [aClass('a', true)], [], ''],
    ['the named one', 'a', [aClass('a')], [], ''],
    ['none', undefined, [], ['error VolumeNotBound'], 'once a provisioner is installed'],
    [
      'another one than the named',
      'b',
      [aClass('a')],
      ['error VolumeNotBound'],
      'storageClassName=a',
    ],
    [
      'two default ones',
      undefined,
      [aClass('a', true), aClass('b', true)],
      ['warning StorageClassAmbiguous'],
      '',
    ],
    [
      'one without a provisioner',
      'a',
      [aClass('a', false, 'kubernetes.io/no-provisioner')],
      ['warning VolumeNotBound'],
      '',
    ],
  ])('with %s', (_name, wanted, classes, codes, remedy) => {
    const findings = storageClassFindings({ ...installation, wanted, classes });
    expect(short(findings)).toEqual(codes);
    expect(remedyOf(findings)).toContain(remedy);
  });
});

it.each([
  ['Bound', undefined, []],
  ['Pending', undefined, ['error VolumeNotBound']],
  ['Pending', 'pod has unbound immediate PersistentVolumeClaims', ['error VolumeNotBound']],
  [
    'Pending',
    '0/3 nodes are available: 3 Insufficient cpu',
    expect.stringContaining('has no node'),
  ],
])('a claim that is %s while the scheduler says %j', (phase, scheduler, result) => {
  const facts = { namespace: 'a', phase, scheduler, storageClassName: undefined };
  expect(short(volumeFindings(facts))).toEqual(result);
});

describe('the dry run of a pod', () => {
  const sent = { spec: { containers: [{ name: 'agent' }] } };
  const podOf = (spec: object) =>
    ({ metadata: { name: 'check' }, spec: { ...sent.spec, ...spec } }) as unknown as Pick<
      Pod,
      'spec' | 'metadata'
    >;
  it.each([
    ['that comes back as sent', { pod: podOf({}), errors: [] }, [], ''],
    [
      'that gets a container of Istio',
      { pod: podOf({ initContainers: [{ name: 'istio-proxy' }] }), errors: [] },
      ['warning ContainersInjected'],
      'sidecar\\.istio\\.io/inject=false',
    ],
    [
      'that a webhook refuses',
      { errors: [refused('admission webhook "a.b" denied the request: no')] },
      ['error AdmissionDenied'],
      'validatingwebhookconfigurations',
    ],
    [
      'that the standard refuses, which is of another check',
      { errors: [refused('violates PodSecurity "restricted:latest": x')] },
      [],
      '',
    ],
    [
      'that a quota refuses, which is of another check',
      { errors: [refused('exceeded quota: a, requested: pods=1, used: pods=1, limited: pods=1')] },
      [],
      '',
    ],
  ])('%s', (_name, dryRun, codes, remedy) => {
    const findings = admissionFindings({ ...here, dryRun: { sent, ...dryRun } });
    expect(short(findings)).toEqual(codes);
    expect(remedyOf(findings)).toContain(remedy);
  });
});

it.each([
  ['restricted', [], [], ''],
  [undefined, [], ['warning PodSecurityNotEnforced'], 'enforce=restricted'],
  ['privileged', [], ['warning PodSecurityNotEnforced'], 'enforce=restricted'],
  [
    'restricted',
    ['violates PodSecurity "restricted:latest": privileged'],
    ['error PodSecurityViolated'],
    'enforce=privileged',
  ],
  [
    'restricted',
    ['violates PodSecurity "restricted:latest": runAsNonRoot != true'],
    ['error PodSecurityViolated'],
    'enforce=baseline',
  ],
  [
    'baseline',
    ['violates PodSecurity "baseline:latest": hostPath volumes'],
    ['error PodSecurityViolated'],
    'enforce=privileged',
  ],
  [
    undefined,
    ['unable to validate against any security context constraint'],
    ['error PodSecurityViolated'],
    'oc adm policy',
  ],
])('a namespace that enforces %s, with refusals %j', (level, messages, codes, remedy) => {
  const findings = podSecurityFindings({ namespace: 'a', level, errors: messages.map(refused) });
  expect(short(findings)).toEqual(codes);
  expect(remedyOf(findings)).toContain(remedy);
});

describe('quotas', () => {
  const pod = {
    spec: {
      containers: [{ name: 'agent', resources: { requests: { cpu: '500m', memory: '1Gi' } } }],
    },
  } as Pick<Pod, 'spec'>;
  const claim = { spec: { resources: { requests: { storage: '10Gi' } } } };
  const aQuota = (
    hard: Readonly<Record<string, string>>,
    used: Readonly<Record<string, string>>,
    spec = {},
  ) =>
    ({
      metadata: { name: 'q' },
      spec: { hard, ...spec },
      status: { used },
    }) as unknown as ResourceQuota;
  it.each([
    ['has room for three', aQuota({ 'requests.cpu': '2' }, { 'requests.cpu': '500m' }), 3, 0],
    ['has no memory', aQuota({ memory: '2Gi' }, { memory: '1500Mi' }), 0, 1],
    ['has no pod', aQuota({ pods: '5' }, { pods: '5' }), 0, 1],
    [
      'has no storage',
      aQuota({ 'requests.storage': '15Gi' }, { 'requests.storage': '10Gi' }),
      0,
      1,
    ],
    ['counts other pods only', aQuota({ pods: '0' }, {}, { scopes: ['BestEffort'] }), Infinity, 0],
    ['is about other things', aQuota({ services: '0' }, {}), Infinity, 0],
  ])('one that %s', (_name, quota, sandboxes, full) => {
    const room = roomIn([quota], needsOf(pod, claim));
    expect([room.sandboxes, room.full.length]).toEqual([sandboxes, full]);
  });
  it('are one finding each, also where the dry run says so', () => {
    const errors = [refused('exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5')];
    const facts = { namespace: 'a', quotas: [aQuota({ pods: '5' }, { pods: '5' })] };
    const findings = quotaFindings({ ...facts, dryRun: { sent: pod, claim, errors } });
    expect(short(findings)).toEqual(['error ResourceQuotaExceeded']);
    expect(remedyOf(findings)).toContain('patch resourcequota q');
    const refusals = quotaFindings({ ...facts, quotas: [], dryRun: { sent: pod, errors } });
    expect(short(refusals)).toEqual(['error ResourceQuotaExceeded']);
    for (const { breaks } of [...findings, ...refusals])
      expect(breaks).toBe(
        'Starts wait, with the reason ResourceQuotaExceeded, until there is room.',
      );
  });
  it('that are too small for one sandbox let nothing wait, in one finding', () => {
    const errors = [
      refused('exceeded quota: q, requested: memory=1Gi, used: memory=0, limited: memory=512Mi'),
    ];
    const dryRun = { sent: pod, claim, errors };
    const quotas = [aQuota({ memory: '512Mi', pods: '5' }, { pods: '5' })];
    for (const findings of [
      quotaFindings({ namespace: 'a', quotas, dryRun }),
      // Quotas with scopes are known by the dry run alone.
      quotaFindings({ namespace: 'a', quotas: [], dryRun }),
    ]) {
      expect(short(findings)).toEqual(['error ResourceQuotaTooSmall']);
      expect(findings[0]?.breaks).toBe('Starts end in ResourceQuotaTooSmall.');
      expect(remedyOf(findings)).toContain('resourcequota');
    }
    expect(admissionFindings({ ...here, dryRun })).toEqual([]);
  });
  it('and limit ranges are known by the dry run', () => {
    const errors = [refused('maximum memory usage per Container is 1Gi, but limit is 2Gi')];
    const findings = quotaFindings({ namespace: 'a', quotas: [], dryRun: { sent: pod, errors } });
    expect(short(findings)).toEqual(['error LimitRangeViolated']);
  });
  it.each([
    ['100m', 0.1],
    ['1.5Gi', 1.5 * 2 ** 30],
    ['2e3', 2000],
    ['-1', -1],
    ['many', NaN],
  ])('read %s', (text, value) => {
    expect(quantityOf(text)).toBe(value);
  });
});

describe('nodes', () => {
  const aNode = (architecture: string, labels = {}, spec = {}) =>
    ({ metadata: { labels }, spec, status: { nodeInfo: { architecture } } }) as unknown as Node;
  const [amd, arm, riscv] = [aNode('amd64'), aNode('arm64'), aNode('riscv64')];
  it.each([
    ['of the images', [amd, arm], []],
    ['of another one', [riscv], ['error ArchitectureUnsupported']],
    ['of both', [amd, riscv], ['warning ArchitectureUnsupported']],
  ])('%s', (_name, nodes, codes) => {
    const images = ['amd64', 'arm64'];
    expect(short(architectureFindings({ ...installation, nodes, images }))).toEqual(codes);
  });
  it('count when the template selects them, and when they take pods', () => {
    const gpu = aNode('amd64', { pool: 'agents' });
    const cordoned = aNode('amd64', { pool: 'agents' }, { unschedulable: true });
    expect(selectedNodes([amd, gpu, cordoned], { pool: 'agents' })).toEqual([gpu]);
  });
  it('know the runtime class', () => {
    const facts = { ...installation, names: ['gvisor'] };
    expect(runtimeClassFindings({ ...facts, wanted: 'gvisor' })).toEqual([]);
    expect(short(runtimeClassFindings({ ...facts, wanted: 'kata' }))).toEqual([
      'error ReferenceNotFound',
    ]);
  });
});

describe('an image', () => {
  const podWith = (status: object, conditions: readonly object[] = []) =>
    ({
      metadata: { name: 'check-1' },
      spec: { containers: [{ name: 'check' }] },
      status: {
        conditions,
        containerStatuses: [{ name: 'check', image: 'i', restartCount: 0, imageID: '', ...status }],
      },
    }) as unknown as Pod;
  const waiting = (reason: string, message?: string) => ({
    state: { waiting: { reason, message } },
  });
  it.each([
    ['that is being pulled', podWith(waiting('ContainerCreating')), undefined],
    ['whose pull fails', podWith(waiting('ErrImagePull', 'not found')), 'failed'],
    ['whose pull has failed before', podWith(waiting('ImagePullBackOff', 'not found')), 'failed'],
    ['of no valid name', podWith(waiting('InvalidImageName')), 'failed'],
    ['that runs', podWith({ imageID: 'sha256:1', state: { running: {} } }), 'pulled'],
    [
      'without the program',
      podWith({ imageID: 'sha256:1', ...waiting('RunContainerError') }),
      'pulled',
    ],
    [
      'that would run as root',
      podWith(waiting('CreateContainerConfigError', 'runAsNonRoot')),
      'pulled',
    ],
    [
      'of a pod without a node',
      podWith({}, [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable' }]),
      'held',
    ],
  ])('%s', (_name, pod, kind) => {
    expect(pullOf(pod)?.kind).toBe(kind);
  });
  it.each([
    ['401 Unauthorized', 'defaultTemplate.image.pullSecrets'],
    ['manifest unknown', '--set defaultTemplate.image.repository'],
  ])('whose pull ends in %s', (message, remedy) => {
    const image = { name: 'defaultTemplate.image', image: 'agent:1', message } as const;
    const findings = imageFindings([image, { ...image, message: undefined }], here);
    expect(short(findings)).toEqual(['error ImagePullFailed']);
    expect(remedyOf(findings)).toContain(remedy);
  });
});

it.each([
  [true, false, []],
  [true, true, ['error NetworkPolicyNotEnforced']],
  [false, false, expect.stringContaining('reach each other nowhere')],
])('connections: the permitted one %s, the forbidden one %s', (allowed, forbidden, result) => {
  expect(short(networkPolicyFindings({ allowed, forbidden }))).toEqual(result);
});

describe('the report', () => {
  const finding = (severity: Finding['severity']): Finding => ({
    code: 'ClockSkewed',
    severity,
    cause: 'A cause.',
    breaks: 'A loss.',
    remedy: 'a command',
  });
  const result = (
    name: string,
    findings: readonly Finding[],
    notTried: readonly string[] = [],
  ) => ({ name, findings, notTried, observed: 'all is well' });
  it.each([
    ['nothing is found', [result('a', [])], 0],
    ['a warning is found', [result('a', [finding('warning')])], 0],
    ['something is not tried', [result('a', [finding('warning')], ['no right'])], 2],
    ['an error is found', [result('a', [], ['no right']), result('b', [finding('error')])], 1],
  ])('ends in its code where %s', (_name, results, code) => {
    expect(exitCodeOf(results)).toBe(code);
  });
  it('has a row for each check, and the line that mends each finding', () => {
    expect(textReport([result('a', [], ['no right']), result('b', [finding('error')])])).toBe(
      `CHECK   RESULT      OBSERVED
a       not tried   all is well; not tried: no right
b       error       ClockSkewed

error: ClockSkewed (b)
  cause:   A cause.
  breaks:  A loss.
  remedy:  a command

errors: 1, warnings: 0, not tried or not as a whole: 1 of 2 checks
`,
    );
  });
  it.each([
    [
      'no right',
      new ApiError(403, { message: 'nodes is forbidden' }),
      'no right: nodes is forbidden',
    ],
    [
      'no such API',
      new ApiError(404, { message: '404 page not found' }),
      'the API server does not serve the API of this check',
    ],
    [
      'no such namespace',
      new ApiError(404, { reason: 'NotFound', message: 'namespaces "a" not found' }),
      'there is no namespace a',
    ],
    [
      'a fault of the server',
      new ApiError(500, { message: 'etcd' }),
      'the API server answers 500: etcd',
    ],
    ['no answer', new TransportError('no answer'), 'no answer'],
    ['a fault of ours, which ends the command', new TypeError('ours'), undefined],
  ])('explains %s', (_name, error, reason) => {
    expect(notTriedReason(error)).toBe(reason);
  });
});

it('text of another program is one line, with a mark where it is truncated', () => {
  expect(oneLine(' two\n\tlines ')).toBe('two lines');
  expect(oneLine('x'.repeat(401))).toBe(`${'x'.repeat(400)}…`);
});
