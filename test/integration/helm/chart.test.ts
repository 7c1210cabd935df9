/* oxlint-disable
  @typescript-eslint/no-unsafe-member-access,
  @typescript-eslint/no-unsafe-assignment,
  @typescript-eslint/no-unsafe-argument,
  @typescript-eslint/no-unsafe-call,
  @typescript-eslint/no-unsafe-return --
  Resources are of every kind; a wrong guess fails the test. */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { helmVersions } from '../../../helm/tools/binaries.ts';
import { manifests } from '../../../helm/tools/manifests.ts';
import { chartFolder, helm, renderChart } from '../../../helm/tools/render.ts';
import { chartValues, valuesDocument, valuesSchema } from '../../../helm/tools/values-document.ts';
import { chosenChecks, allChecks } from '../../../src/commands/check.ts';
import { plannedTemplate } from '../../../src/commands/check/dry-run.ts';
import { accountRules, tokenReviewRule } from '../../../src/commands/check/rights.ts';
import { defaultTemplate } from '../../../src/commands/initial-objects.ts';
import { openHandsTemplate } from '../../../src/commands/local-agents.ts';
import { acpAgentNames } from '../../../src/resources/acp-settings.ts';
import { archiveConfigOf, type ArchiveConfig } from '../../../src/config/archive.ts';
import { readCheckConfig } from '../../../src/config/check.ts';
import {
  readGatewayConfig,
  readOperatorConfig,
  readRelayConfig,
  sandboxOutwardOf,
} from '../../../src/config/cluster.ts';
import { buildPod } from '../../../src/controllers/sandbox/pod.ts';
import { hashKey, isWellFormedKey } from '../../../src/gateway/auth/key.ts';
import { defaultArchiveMaxBytes } from '../../../src/resources/sandbox-template.ts';
import { aSandbox } from '../../support/builders.ts';
import { shapeErrors } from '../../support/kubernetes-shape.ts';
import { Plane, type Body } from '../../support/plane.ts';
import { RenderedChart } from '../../support/rendered-chart.ts';
import { valueSets } from './value-sets.ts';

const group = 'conversation-operator.dev';
const ours = `${group}/v1alpha1`;
const root = join(chartFolder, '../..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');

describe.each(helmVersions)('the chart, by Helm %i,', (version) => {
  it('passes the linter', async () => {
    await expect(helm(version, ['lint', '--strict', chartFolder])).resolves.toContain(
      '0 chart(s) failed',
    );
  });

  it.each(Object.keys(valueSets))(
    'makes resources as Kubernetes has them, with %s',
    async (name) => {
      const chart = await RenderedChart.of(version, { values: valueSets[name] ?? {} });
      const errors = chart.resources.flatMap((resource: Body) => {
        const { apiVersion, kind, metadata } = resource;
        // Kinds of others than Kubernetes have no model.
        if (/^(conversation-operator|monitoring|gateway)\./.test(apiVersion)) return [];
        const model = `${apiVersion.split('/').at(-1).replace('v', 'V')}${kind}`;
        return shapeErrors(model, resource, `${kind}/${metadata.name}`);
      });
      expect(errors).toEqual([]);
      expect(chart.resources.length).toBeGreaterThan(0);
    },
  );

  it.each([
    ['a name at the top', { gatway: {} }, 'gatway'],
    ['a name inside', { gateway: { replcas: 3 } }, 'replcas'],
    ['a name deep inside', { networkPolicies: { sandboxes: { internett: true } } }, 'internett'],
    [
      'a name in a list',
      { gitHosts: [{ provider: 'github', url: 'https://github.com', token: 'x' }] },
      'token',
    ],
    ['a word that is none of the known', { defaultQuota: { onExceeded: 'Pause' } }, 'onExceeded'],
    ['a number as a text', { gateway: { replicas: '3' } }, 'replicas'],
    ['a duration without a unit', { defaultTemplate: { idleTimeout: '30' } }, 'idleTimeout'],
    [
      'an origin with a path',
      { gateway: { corsOrigins: ['https://ui.example.com/app'] } },
      'corsOrigins',
    ],
    [
      'fewer reads than clients need',
      { gateway: { limits: { readsPerSecond: 19 } } },
      'readsPerSecond',
    ],
    [
      'too long a wait for git hosts',
      { gateway: { repositoryCheck: { timeoutSeconds: 31 } } },
      'timeoutSeconds',
    ],
    [
      'more than a day for a clone',
      { operator: { preparation: { cloneTimeoutSeconds: 86_401 } } },
      'cloneTimeoutSeconds',
    ],
    [
      'no room for a repository',
      { operator: { preparation: { repositoryMaxMebibytes: 0 } } },
      'repositoryMaxMebibytes',
    ],
    ['no shards', { operator: { allNamespaces: true, shards: 0 } }, 'shards'],
    ['too many shards', { operator: { allNamespaces: true, shards: 65 } }, 'shards'],
    ['half a shard', { operator: { allNamespaces: true, shards: 1.5 } }, 'shards'],
    ['too long a drain', { gateway: { drainSeconds: 60 } }, 'drainSeconds'],
    ['too long a drain of the relay', { relay: { drainSeconds: 16 } }, 'drainSeconds'],
    ['half a relay', { relay: { replicas: 1.5 } }, /relay.replicas/],
    ['fewer relays than none', { relay: { replicas: -1 } }, /relay.replicas/],
    ['a number of relays as a text', { relay: { replicas: '2' } }, /relay.replicas/],
    ['a name inside the relay', { relay: { replcas: 2 } }, 'replcas'],
    [
      'a bucket beside a claim',
      { archive: { claim: 'history', s3: { bucket: 'history' } } },
      'claim',
    ],
    [
      'a bucket beside a claim to make',
      { archive: { create: { size: '1Gi' }, s3: { bucket: 'history' } } },
      'size',
    ],
    ['a bucket by its URL', { archive: { s3: { bucket: 's3://history' } } }, 'bucket'],
    ['a prefix with a slash at the end', { archive: { s3: { prefix: 'team/' } } }, 'prefix'],
    ['keys in a URL', { archive: { s3: { endpoint: 'https://a:b@s3.example' } } }, 'endpoint'],
    ['an encryption of others', { archive: { s3: { encryption: 'SSE-C' } } }, 'encryption'],
    ['a claim of one pod', { archive: { create: { accessModes: ['ReadWriteOncePod'] } } }, 'Modes'],
    ['a password of a proxy', { proxy: { https: 'http://me:secret@proxy:3128' } }, 'https'],
    ['two hosts as one', { proxy: { noProxy: ['a,b'] } }, 'noProxy'],
    ['a port that is none', { proxy: { https: 'http://proxy:99999' } }, /proxy.https/],
    ['a port of too many digits', { proxy: { http: 'http://[fd00::1]:65536/' } }, /proxy.http/],
    ['the folder above', { trust: { configMap: 'ca', key: '..' } }, /trust.key/],
    ['a folder', { trust: { configMap: 'ca', key: '.' } }, /trust.key/],
    ['a name that no ConfigMap has', { trust: { configMap: 'ca', key: '..ca' } }, /trust.key/],
    ['the path of an entry', { trust: { configMap: 'ca', key: '../ca.crt' } }, 'key'],
    ['archives of no bytes', { defaultTemplate: { archive: { maxBytes: 0 } } }, 'maxBytes'],
  ])('refuses %s', async (_name, values, word) => {
    await expect(renderChart(version, { values })).rejects.toThrow(word);
  });

  it.each([
    [
      "the release's own namespace, which is to be made",
      { sandboxes: { namespace: 'agents', createNamespace: true } },
      'sandboxes.createNamespace must not be true',
    ],
    [
      "another user's key without its hash",
      { firstKey: { existingSecret: 'mine' } },
      'firstKey.sha256 is needed',
    ],
    [
      'no service account at all',
      { gateway: { serviceAccount: { create: false } } },
      'gateway.serviceAccount.name is needed',
    ],
    [
      'a relay without a gateway',
      { gateway: { enabled: false }, relay: { replicas: 2 } },
      'relay.replicas must be 0 unless gateway.enabled is true',
    ],
    [
      'no service account of the relay',
      { relay: { replicas: 2, serviceAccount: { create: false } } },
      'relay.serviceAccount.name is needed',
    ],
    [
      'two limits of one key',
      { models: { limits: [1, 2].map((calls) => ({ credential: 'team', calls })) } },
      'models.limits has two entries for the credential team',
    ],
    [
      'shards of one namespace',
      { operator: { shards: 2 } },
      'operator.shards must be 1 unless operator.allNamespaces is true',
    ],
    [
      'two places of certificates',
      { trust: { configMap: 'a', secret: 'b' } },
      'only one of trust.configMap and trust.secret may be set',
    ],
    [
      'two claims of the archive',
      { archive: { claim: 'history', create: { size: '1Gi' } } },
      'only one of archive.claim, archive.create.size and archive.s3.bucket may be set, not archive.claim and archive.create.size',
    ],
    [
      'a store without a bucket',
      { archive: { s3: { endpoint: 'https://minio.example.com' } } },
      'archive.s3.endpoint needs archive.s3.bucket',
    ],
    [
      'a path of no bucket',
      { archive: { s3: { pathStyle: false } } },
      'archive.s3.pathStyle needs archive.s3.bucket',
    ],
    [
      'a key that nothing uses',
      { archive: { s3: { bucket: 'history', encryption: 'AES256', kmsKeyId: 'k' } } },
      'archive.s3.kmsKeyId needs archive.s3.encryption=aws:kms',
    ],
    [
      'the encryption of nothing',
      { archive: { encrypt: true } },
      'archive.encrypt needs archive.claim, archive.create.size or archive.s3.bucket',
    ],
    [
      'a monitor without a service',
      { metrics: { service: false, serviceMonitor: { enabled: true } } },
      'serviceMonitor.enabled needs metrics.service',
    ],
  ])('explains what is wrong with %s', async (_name, values, words) => {
    await expect(renderChart(version, { values })).rejects.toThrow(words);
  });

  it('explains two places of the archive also where the schema is skipped', async () => {
    const values = { archive: { claim: 'history', s3: { bucket: 'history' } } };
    const args = ['template', 'a', chartFolder, '--values', '-', '--skip-schema-validation'];
    await expect(helm(version, args, JSON.stringify(values))).rejects.toThrow(
      'only one of archive.claim, archive.create.size and archive.s3.bucket may be set, not archive.claim and archive.s3.bucket',
    );
  });

  it('makes a first key that the gateway takes, another one each time', async () => {
    const charts = [await RenderedChart.of(version), await RenderedChart.of(version)];
    const keys = charts.map((chart) =>
      Buffer.from(chart.one('Secret', 'first-key').data['api-key'], 'base64').toString(),
    );
    expect(keys.map(isWellFormedKey)).toEqual([true, true]);
    expect(charts.map((chart) => chart.one('ApiKey').spec.sha256)).toEqual(keys.map(hashKey));
    expect(new Set(keys).size).toBe(2);
  });
});

describe('the chart', () => {
  let chart: RenderedChart;
  let full: RenderedChart;
  let withRelay: RenderedChart;
  beforeAll(async () => {
    chart = await RenderedChart.of(4);
    withRelay = await RenderedChart.of(4, { values: { relay: { replicas: 2 } } });
    full = await RenderedChart.of(4, { values: valueSets['everything that is optional'] ?? {} });
  });

  it('says the same by either Helm', async () => {
    const values = { masterKey: { existingSecret: 'ours' }, firstKey: { create: false } };
    // Helm 3.17 prints no log of a failed test, and so keeps its pod.
    const withoutLogs = (await renderChart(4, { values })).replaceAll(
      /,hook-failed\n +helm\.sh\/hook-output-log-policy: .*\n/g,
      '\n',
    );
    expect(await renderChart(3, { values })).toBe(withoutLogs);
  });

  it('has everything that an installation needs', () => {
    expect(chart.kinds()).toEqual(
      [
        ...[
          'ApiKey',
          'CustomResourceDefinition',
          'Deployment',
          'Namespace',
          'NetworkPolicy',
          'Pod',
        ],
        ...['PodDisruptionBudget', 'Role', 'RoleBinding', 'Secret', 'Service', 'ServiceAccount'],
      ].sort(),
    );
    expect(full.kinds()).toEqual(
      expect.arrayContaining(['HTTPRoute', 'HorizontalPodAutoscaler', 'Ingress', 'ServiceMonitor']),
    );
  });

  it('gives the processes settings that they understand, and the git hosts in the order of the values', () => {
    const operator = readOperatorConfig(chart.environment('operator'));
    expect(Object.keys(operator.GIT_HOSTS)).toEqual(['github', 'gitlab', 'bitbucket']);
    expect(readGatewayConfig(chart.environment('gateway')).GIT_HOSTS).toEqual(operator.GIT_HOSTS);
    expect(operator.NAMESPACE).toBe('agents-sandboxes');
    const preparation = {
      CLONE_TIMEOUT_SECONDS: 600,
      SETUP_TIMEOUT_SECONDS: 600,
      REPOSITORY_MAX_MIB: 10_240,
    };
    // The defaults of the chart are those of the program.
    expect(operator).toMatchObject(preparation);
    expect(
      readOperatorConfig({ MASTER_KEY_FILES: operator.MASTER_KEY_FILES.join(',') }),
    ).toMatchObject(preparation);
    expect(readOperatorConfig(full.environment('operator'))).toMatchObject({
      CLONE_TIMEOUT_SECONDS: 86_400,
      SETUP_TIMEOUT_SECONDS: 30,
      REPOSITORY_MAX_MIB: 2_000_000,
    });
    expect(readGatewayConfig(chart.environment('gateway')).DRAIN_SECONDS).toBe(5);
    expect(readGatewayConfig(chart.environment('gateway')).CORS_ORIGINS).toEqual([]);
    expect(readGatewayConfig(chart.environment('gateway')).MAX_CONNECTIONS_PER_ADDRESS).toBe(1000);
    expect(readGatewayConfig(full.environment('gateway'))).toMatchObject({
      PUBLIC_URL: 'https://agents.example.com',
      CORS_ORIGINS: ['https://ui.example.com', 'http://127.0.0.1:3001'],
      TRUSTED_PROXIES: ['10.0.0.0/8', 'fd00::/8', 'loopback'],
      GIT_CHECK: true,
      GIT_CHECK_SECONDS: 2.5,
      CLONE_TIMEOUT_SECONDS: 86_400,
      API_KEY_MAX_LIFETIME_DAYS: 90,
      RATE_LIMIT_READS: 0,
      RATE_LIMIT_WRITES: 100,
      MAX_CONNECTIONS: 10_000,
      MAX_CONNECTIONS_PER_ADDRESS: 0,
      // Helm writes large numbers in another form when a template takes no care.
      MAX_REQUESTS: 3_000_000,
    });
  });

  it('has pods that pass the restricted standard, with bounds, and nothing to write to', () => {
    for (const { securityContext, containers } of [...chart.podSpecs(), ...full.podSpecs()]) {
      expect(securityContext).toMatchObject({
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
      });
      for (const container of containers) {
        expect(container.securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
        expect(container.resources).toMatchObject({
          requests: { cpu: expect.any(String) },
          limits: { memory: expect.any(String) },
        });
      }
    }
  });

  it('has a default template whose sandboxes pass the restricted standard, without a token, with bounds', () => {
    const template = chart.one('SandboxTemplate');
    const { spec } = buildPod(aSandbox(), template, { bootstrapKey: 'bootstrap-key' });
    expect(spec).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    });
    for (const container of spec?.containers ?? []) {
      expect(container.securityContext).toEqual({
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
        readOnlyRootFilesystem: true,
      });
      expect(container.resources).toMatchObject({
        requests: { memory: '256Mi', 'ephemeral-storage': '128Mi' },
        limits: { memory: '2Gi', 'ephemeral-storage': '4Gi' },
      });
      expect(container.volumeMounts).toEqual([
        { name: 'tmp', mountPath: '/tmp' },
        { name: 'workspace', mountPath: '/workspace' },
      ]);
    }
    expect(spec?.volumes).toEqual([
      { name: 'tmp', emptyDir: { sizeLimit: '2Gi' } },
      { name: 'workspace', persistentVolumeClaim: { claimName: 'sbx-1' } },
    ]);
  });

  it('has no template of another agent, unless a value enables it', () => {
    expect(
      chart.all('SandboxTemplate').map(({ metadata }: Body) => metadata.name as string),
    ).toEqual(['default']);
  });

  it('has templates of agents like the default one, with the model and image of the agent alone', async () => {
    const values = valueSets['agents of the Agent Client Protocol'] ?? {};
    const rendered = await RenderedChart.of(4, { values });
    const [codex, gemini] = ['codex', 'gemini'].map(
      (name) => rendered.one('SandboxTemplate', name) as { readonly spec: Body },
    );
    const shared = {
      idleTimeout: '12h',
      podTemplate: {
        spec: {
          runtimeClassName: 'gvisor',
          imagePullSecrets: [{ name: 'registry' }],
          securityContext: { runAsUser: 10001, fsGroup: 10001 },
        },
      },
    };
    expect(codex?.spec).toMatchObject(shared);
    expect(codex?.spec.agent).toEqual({
      kind: 'acp',
      port: 9000,
      workingDir: '/workspace',
      model: 'gpt-5',
      baseUrl: 'https://models.example/v1',
      credential: 'openai',
      allowedModels: ['gpt-5*'],
      confirmationPolicy: 'AlwaysConfirm',
      acp: {
        agent: 'codex',
        mode: 'read-only',
        allowAlways: true,
        env: { HTTPS_PROXY: 'http://proxy:3128' },
        mcpServers: [{ name: 'docs', url: 'https://docs.example.com/mcp' }],
      },
    });
    expect(codex?.spec.podTemplate.spec.containers[0]).toMatchObject({
      image: expect.stringMatching(/^registry\.example\.com\/acp-codex:\d/),
      env: [{ name: 'GIT_AUTHOR_NAME', value: 'agent' }],
      resources: { limits: { memory: '4Gi' } },
      securityContext: { readOnlyRootFilesystem: true },
    });
    expect(gemini?.spec).toMatchObject(shared);
    expect(gemini?.spec.agent).toEqual({
      kind: 'acp',
      port: 9000,
      workingDir: '/workspace',
      acp: { agent: 'gemini' },
    });
    expect(gemini?.spec.podTemplate.spec.containers[0]).toMatchObject({
      image: `acp-gemini@sha256:${'0'.repeat(64)}`,
      resources: { limits: { memory: '8Gi' } },
    });
  });

  it('has a value for each agent', () => {
    const names = chartValues()
      .values.map(({ path }) => path)
      .filter(([top, , field]) => top === 'agents' && field === 'enabled')
      .map(([, name]) => name);
    expect(names).toEqual([...acpAgentNames]);
  });

  it.each([
    [
      'an image',
      { claude: { enabled: true } },
      'agents.claude.image.repository is needed when agents.claude.enabled is true: IMAGES=acp-claude make images builds the image',
    ],
    [
      'where a key goes',
      { codex: { enabled: true, image: { repository: 'r' }, agent: { credential: 'k' } } },
      'agents.codex.agent.credential needs agents.codex.agent.baseUrl, or allowedModels',
    ],
    ['an agent that it has', { codec: { enabled: true } }, 'codec'],
    ['names of variables', { codex: { acp: { env: { 'a-b': 'c' } } } }, 'a-b'],
  ])('wants for agents %s', async (_case, agents, error) => {
    await expect(renderChart(4, { values: { agents } })).rejects.toMatchObject({
      stderr: expect.stringContaining(error),
    });
  });

  it('pauses what is idle for half an hour, as `make run` does, unless the value is empty', async () => {
    const programs = [defaultTemplate('default'), openHandsTemplate('default', '1')];
    const idleTimeouts = [chart.one('SandboxTemplate'), ...programs].map(
      ({ spec }: Body) => spec.idleTimeout as unknown,
    );
    expect(idleTimeouts).toEqual(['30m', '30m', '30m']);
    const never = await RenderedChart.of(4, { values: { defaultTemplate: { idleTimeout: '' } } });
    expect(never.one('SandboxTemplate').spec).not.toHaveProperty('idleTimeout');
  });

  it('leaves what may be pushed to the defaults, unless a value says', () => {
    expect(chart.one('SandboxTemplate').spec).not.toHaveProperty('git');
    expect(full.one('SandboxTemplate').spec.git).toEqual({
      push: { branches: ['bots/*'], maxPerHour: 5 },
      readable: ['acme/lib'],
    });
  });

  it('keeps everything for ever, unless a value says for how long', () => {
    expect(chart.one('SandboxTemplate').spec).not.toHaveProperty('retention');
    expect(full.one('SandboxTemplate').spec.retention).toEqual({
      finished: '168h',
      paused: '720h',
    });
  });

  it('archives by the rules of the default template and quota', async () => {
    const values = valueSets['an archive on a claim that it makes'] ?? {};
    const other = await RenderedChart.of(4, { values });
    expect(chart.one('SandboxTemplate').spec.archive).toEqual({
      enabled: true,
      maxBytes: defaultArchiveMaxBytes,
    });
    expect(other.one('SandboxTemplate').spec.archive).toEqual({
      enabled: false,
      retention: '720h',
      maxBytes: 10_737_418_240,
    });
    expect(chart.one('ConversationQuota').spec).toMatchObject({ maxArchivedBytes: 10 * 2 ** 30 });
    expect(chart.one('ConversationQuota').spec).not.toHaveProperty('archiveRetention');
    expect(other.one('ConversationQuota').spec).toMatchObject({ archiveRetention: '8760h' });
    expect(other.one('ConversationQuota').spec).not.toHaveProperty('maxArchivedBytes');
  });

  it('leaves the root file system writable where that is asked for', async () => {
    const writable = await RenderedChart.of(4, {
      values: { defaultTemplate: { readOnlyRootFilesystem: false, tmpSize: '100Mi' } },
    });
    const { containers, volumes } = writable.one('SandboxTemplate').spec.podTemplate.spec;
    expect(containers[0].securityContext).toEqual({ readOnlyRootFilesystem: false });
    expect(volumes).toEqual([{ name: 'tmp', emptyDir: { sizeLimit: '100Mi' } }]);
  });

  it('gives /tmp no volume where that is asked for, because kubectl drain refuses an emptyDir', async () => {
    const drained = await RenderedChart.of(4, {
      values: { defaultTemplate: { readOnlyRootFilesystem: false, tmpSize: '' } },
    });
    const { spec } = buildPod(aSandbox(), drained.one('SandboxTemplate'), {
      bootstrapKey: 'bootstrap-key',
    });
    expect(spec?.volumes?.filter(({ emptyDir }) => emptyDir !== undefined)).toEqual([]);
    expect(spec?.containers[0]?.volumeMounts).toEqual([
      { name: 'workspace', mountPath: '/workspace' },
    ]);
    await expect(
      RenderedChart.of(4, { values: { defaultTemplate: { tmpSize: '' } } }),
    ).rejects.toThrow('defaultTemplate.tmpSize: an empty value needs');
  });

  it('lets a template say where and how sandboxes run', () => {
    expect(full.one('SandboxTemplate').spec.podTemplate.spec).toMatchObject({
      runtimeClassName: 'gvisor',
      nodeSelector: { pool: 'agents' },
      tolerations: [{ operator: 'Exists' }],
      imagePullSecrets: [{ name: 'registry' }],
    });
  });

  it.each(['the defaults', 'everything that is optional'])(
    'makes resources that their own definitions accept, with %s',
    async (name) => {
      const rendered = await RenderedChart.of(4, { values: valueSets[name] ?? {} });
      const plane = await new Plane().start();
      for (const resource of [...rendered.resources, ...rendered.initialObjects].filter(
        ({ apiVersion }: Body) => apiVersion === ours,
      )) {
        const plural = {
          SandboxTemplate: 'sandboxtemplates',
          SandboxPool: 'sandboxpools',
          ConversationQuota: 'conversationquotas',
          ApiKey: 'apikeys',
          OwnerSettings: 'ownersettings',
          Share: 'shares',
        }[resource.kind as string];
        const { namespace } = resource.metadata;
        await plane.post('/api/v1/namespaces', { metadata: { name: namespace } });
        const target = `/apis/${ours}/namespaces/${namespace}/${plural}?fieldValidation=Strict`;
        const { status, body } = await plane.post(target, resource);
        expect([status, body.message]).toEqual([201, undefined]);
      }
      await plane.close();
    },
  );

  it('makes resources of its own kinds after everything else, until Helm knows the kinds', async () => {
    const hookOf = ({ metadata }: Body) => metadata.annotations['helm.sh/hook'];
    const ofOurs = (rendered: RenderedChart) =>
      rendered.resources.filter(({ apiVersion }: Body) => apiVersion === ours);
    const known = await RenderedChart.of(4, { apiVersions: [ours] });
    expect(ofOurs(chart).map(hookOf)).toEqual(['post-install,post-upgrade']);
    expect(ofOurs(known).map(hookOf)).toEqual([undefined]);
    // The next upgrade takes the resource over by these annotations.
    for (const { metadata } of ofOurs(chart))
      expect(metadata.annotations['meta.helm.sh/release-name']).toBe('conversation-operator');
  });

  it('keeps what people would lose', () => {
    const kept = [...chart.resources, ...full.all('Namespace')].filter(
      ({ metadata }: Body) => metadata.annotations?.['helm.sh/resource-policy'] === 'keep',
    );
    expect([...new Set(kept.map(({ kind }: Body) => kind))].sort()).toEqual(
      ['ApiKey', 'CustomResourceDefinition', 'Namespace', 'Secret'].sort(),
    );
  });

  describe('the objects that people change', () => {
    const nameOf = ({ kind, metadata }: Body) => `${kind} ${metadata.name}`;
    const ofPeople = ['ConversationQuota', 'SandboxTemplate'];
    const inRelease = (rendered: RenderedChart) =>
      rendered.resources.filter(({ kind }: Body) => ofPeople.includes(kind));

    it('are no part of the release: the operator makes them', async () => {
      const agent = { enabled: true, image: { repository: 'registry.example/codex' } };
      const several = await RenderedChart.of(4, { values: { agents: { codex: agent } } });
      expect(inRelease(several)).toEqual([]);
      expect(several.initialObjects.map(nameOf)).toEqual([
        'ConversationQuota default',
        'SandboxTemplate default',
        'SandboxTemplate codex',
      ]);
      // By the label of the instance, Argo CD would take them for its own, and prune them.
      for (const { metadata } of several.initialObjects)
        expect(metadata).toEqual({
          name: metadata.name,
          namespace: 'agents-sandboxes',
          labels: { 'app.kubernetes.io/name': 'conversation-operator' },
        });
      const { rules } = several.one('Role', '-initial-objects');
      expect(
        rules.map((rule: Body) => [rule.resources[0], rule.verbs, rule.resourceNames]),
      ).toEqual([
        ['conversationquotas', ['create'], undefined],
        ['conversationquotas', ['update'], ['default']],
        ['sandboxtemplates', ['create'], undefined],
        ['sandboxtemplates', ['update'], ['default', 'codex']],
      ]);
    });

    it('are those of the values, and there may be none, and no right to them', async () => {
      const none = await RenderedChart.of(4, {
        values: { defaultQuota: { create: false }, defaultTemplate: { create: false } },
      });
      expect(none.initialObjects).toEqual([]);
      expect(none.all('Role').map(nameOf).join()).not.toContain('initial-objects');
      expect(readOperatorConfig(none.environment('operator')).INITIAL_OBJECTS).toEqual([]);
    });

    it('reach the operator as they are in the values', async () => {
      const env = [{ name: 'PLACE', value: '$(NAMESPACE) $$(NAMESPACE) $HOME' }];
      const rendered = await RenderedChart.of(4, { values: { defaultTemplate: { env } } });
      const { spec } = rendered.one('SandboxTemplate');
      expect(spec.podTemplate.spec.containers[0].env).toEqual(env);
      // Kubernetes replaces a variable in a variable, unless its $ is doubled.
      expect(rendered.environment('operator')['INITIAL_OBJECTS']).toContain(
        '$$(NAMESPACE) $$$$(NAMESPACE) $$HOME',
      );
    });

    it('are those of the release where it has no operator', async () => {
      const gateway = await RenderedChart.of(4, {
        values: { operator: { enabled: false } },
        apiVersions: [ours],
      });
      expect(inRelease(gateway).map(nameOf)).toEqual([
        'ConversationQuota default',
        'SandboxTemplate default',
      ]);
      for (const { metadata } of inRelease(gateway))
        expect(metadata.annotations).toEqual({ 'helm.sh/resource-policy': 'keep' });
    });
  });

  it('lets sandboxes be reached by the gateway and the operator only, and reach names and the public internet only', () => {
    const { spec } = chart.one('NetworkPolicy', 'sandboxes');
    expect(spec.policyTypes).toEqual(['Ingress', 'Egress']);
    expect(spec.podSelector).toEqual({
      matchExpressions: [{ key: `${group}/sandbox`, operator: 'Exists' }],
    });
    expect(spec.ingress).toHaveLength(1);
    expect(
      spec.ingress[0].from.map(
        ({ podSelector }: Body) => podSelector.matchLabels['app.kubernetes.io/component'],
      ),
    ).toEqual(['operator', 'gateway']);
    const [dns, agentSide, internet, ...others] = spec.egress;
    expect(others).toEqual([]);
    expect(dns.ports.map(({ port }: Body) => port)).toEqual([53, 53, 5353, 5353]);
    expect(agentSide).toMatchObject({
      ports: [{ port: 'agent-side' }],
      to: [{ podSelector: { matchLabels: { 'app.kubernetes.io/component': 'gateway' } } }],
    });
    expect(internet.to.map(({ ipBlock }: Body) => ipBlock.cidr)).toEqual(['0.0.0.0/0', '::/0']);
    expect(internet.to[0].ipBlock.except).toEqual(
      expect.arrayContaining([
        '10.0.0.0/8',
        '172.16.0.0/12',
        '192.168.0.0/16',
        '169.254.0.0/16',
        '100.64.0.0/10',
      ]),
    );
    expect(internet.to[1].ipBlock.except).toEqual(
      expect.arrayContaining(['fc00::/7', 'fe80::/10']),
    );
  });

  it('gives the Service of clients the address families that the values name', async () => {
    const service = async (values: object) =>
      (await RenderedChart.of(4, { values: { gateway: { service: values } } })).one(
        'Service',
        '-gateway',
      ).spec as unknown;
    expect(await service({})).not.toHaveProperty('ipFamilyPolicy');
    expect(await service({})).not.toHaveProperty('ipFamilies');
    expect(
      await service({ ipFamilyPolicy: 'PreferDualStack', ipFamilies: ['IPv6', 'IPv4'] }),
    ).toMatchObject({ ipFamilyPolicy: 'PreferDualStack', ipFamilies: ['IPv6', 'IPv4'] });
    await expect(service({ ipFamilyPolicy: 'Both' })).rejects.toThrow('ipFamilyPolicy');
  });

  describe('with a proxy and certificates', () => {
    const inside = 'localhost,127.0.0.1,::1,.svc,.cluster.local';
    const about = (variables: Readonly<Record<string, string>>) =>
      Object.fromEntries(Object.entries(variables).filter(([name]) => /PROXY$|TRUST/.test(name)));

    it('gives them to both processes and, by the operator, to all sandboxes', async () => {
      const values = valueSets['a proxy and certificates of a ConfigMap'] ?? {};
      const rendered = await RenderedChart.of(4, { values });
      const noProxy = `.corp.example.com,10.0.0.0/8,${inside}`;
      const both = {
        HTTP_PROXY: 'http://proxy.example.com:3128/',
        NO_PROXY: noProxy,
        TRUST_FILE: '/etc/conversation-operator/trust/ca.crt',
      };
      expect(about(rendered.environment('-gateway'))).toEqual({
        ...both,
        HTTPS_PROXY: 'http://proxy.example.com:3128',
      });
      const operator = rendered.environment('-operator');
      expect(about(operator)).toEqual({
        ...both,
        // The own variable comes instead, and each name is there once.
        HTTPS_PROXY: 'http://another:1',
        SANDBOX_HTTPS_PROXY: 'http://proxy.example.com:3128',
        SANDBOX_HTTP_PROXY: 'http://proxy.example.com:3128/',
        SANDBOX_NO_PROXY: noProxy,
        SANDBOX_TRUST_CONFIG_MAP: 'company-ca',
        SANDBOX_TRUST_KEY: 'ca.crt',
      });
      expect(sandboxOutwardOf(readOperatorConfig(operator))).toEqual({
        proxy: {
          https: 'http://proxy.example.com:3128',
          http: 'http://proxy.example.com:3128/',
          noProxy: noProxy.split(','),
        },
        trust: { kind: 'ConfigMap', name: 'company-ca', key: 'ca.crt' },
      });
      for (const { spec } of rendered.all('Deployment')) {
        const [{ env, volumeMounts }] = spec.template.spec.containers;
        const names = env.map(({ name }: Body) => name);
        expect(new Set(names).size).toBe(names.length);
        expect(volumeMounts).toContainEqual({
          name: 'trust',
          mountPath: '/etc/conversation-operator/trust',
          readOnly: true,
        });
        expect(spec.template.spec.volumes).toContainEqual({
          name: 'trust',
          configMap: { name: 'company-ca', items: [{ key: 'ca.crt', path: 'ca.crt' }] },
        });
      }
    });

    it('takes the certificates of a Secret, which no Role lets a process read', async () => {
      const values = valueSets['a proxy in the cluster and certificates of a Secret'] ?? {};
      const rendered = await RenderedChart.of(4, { values });
      for (const { spec } of rendered.all('Deployment'))
        expect(spec.template.spec.volumes).toContainEqual({
          name: 'trust',
          secret: {
            secretName: 'company-ca',
            defaultMode: 0o444,
            items: [{ key: 'bundle.pem', path: 'ca.crt' }],
          },
        });
      expect(about(rendered.environment('-operator'))).toMatchObject({
        SANDBOX_TRUST_SECRET: 'company-ca',
        SANDBOX_TRUST_KEY: 'bundle.pem',
      });
      const rules = [...rendered.all('Role'), ...rendered.all('ClusterRole')].flatMap(
        (role: Body) => role.rules as readonly Body[],
      );
      for (const { resources = [] } of rules)
        for (const kind of ['secrets', 'configmaps']) expect(resources).not.toContain(kind);
    });

    it('has nothing of that by default', () => {
      expect(about(chart.environment('-operator'))).toEqual({});
      expect(about(chart.environment('-gateway'))).toEqual({});
    });
  });

  it("lets agents notify the gateway, and the gateway alone the operators, by names and ports that are the others'", async () => {
    const partOf = (component: string) => ({ 'app.kubernetes.io/component': component });
    for (const rendered of [chart, full]) {
      const envOf = (component: string, name: string): unknown =>
        rendered
          .one('Deployment', component)
          .spec.template.spec.containers[0].env.find((each: Body) => each.name === name)?.value;
      const { metadata, spec } = rendered.one('Service', 'operator-notifications');
      const [port] = spec.ports;
      expect(spec.clusterIP).toBe('None');
      expect(envOf('gateway', 'OPERATOR_NOTIFICATION_URLS')).toBe(
        `http://${metadata.name}.${metadata.namespace}.svc:${port.port}`,
      );
      // Without an address of its own a Service translates no ports.
      expect(envOf('operator', 'NOTIFICATION_PORT')).toBe(String(port.port));
      const ports = rendered.one('Deployment', 'operator').spec.template.spec.containers[0].ports;
      expect(ports).toContainEqual({ name: 'notifications', containerPort: port.port });
      const agentSide = rendered.one('Service', 'agent-side').metadata;
      expect(envOf('operator', 'AGENT_SIDE_URL')).toBe(
        `http://${agentSide.name}.${agentSide.namespace}.svc`,
      );
      const notifications = (rules: readonly Body[]) =>
        rules.filter(({ ports }) => ports?.some((each: Body) => each.port === 'notifications'));
      const ingress = notifications(rendered.one('NetworkPolicy', 'operator').spec.ingress);
      expect(ingress).toMatchObject([
        { from: [{ podSelector: { matchLabels: partOf('gateway') } }] },
      ]);
      expect(ingress[0].from).toHaveLength(1);
      const egress = notifications(rendered.one('NetworkPolicy', 'gateway').spec.egress);
      expect(egress).toMatchObject([
        { to: [{ podSelector: { matchLabels: partOf('operator') } }] },
      ]);
      expect(notifications(rendered.one('NetworkPolicy', 'sandboxes').spec.egress)).toEqual([]);
    }
    const alone = await RenderedChart.of(4, { values: { gateway: { enabled: false } } });
    expect(JSON.stringify(alone.one('Deployment', 'operator'))).not.toContain('AGENT_SIDE_URL');
    expect(JSON.stringify(alone.one('NetworkPolicy', 'operator'))).not.toContain('notifications');
    const elsewhere = await RenderedChart.of(4, { values: { operator: { enabled: false } } });
    expect(JSON.stringify(elsewhere.one('Deployment', 'gateway'))).not.toContain(
      'OPERATOR_NOTIFICATION_URLS',
    );
    expect(JSON.stringify(elsewhere.one('NetworkPolicy', 'gateway'))).not.toContain(
      'notifications',
    );
  });

  it('lets the gateway and the operator reach sandboxes at whatever port their template names', async () => {
    const elsewhere = await RenderedChart.of(4, {
      values: { sandboxes: { namespace: 'agents' }, defaultTemplate: { agent: { port: 9999 } } },
    });
    expect(elsewhere.one('SandboxTemplate').spec.agent.port).toBe(9999);
    for (const rendered of [chart, full, elsewhere]) {
      const sandboxes = rendered.one('NetworkPolicy', 'sandboxes');
      const [ingress] = sandboxes.spec.ingress;
      expect(ingress).not.toHaveProperty('ports');
      for (const [index, component] of ['operator', 'gateway'].entries()) {
        const policies = rendered
          .all('NetworkPolicy')
          .filter(({ metadata }: Body) => metadata.name.endsWith(`-${component}`));
        for (const { metadata, spec } of policies) {
          const toSandboxes = spec.egress.filter(({ to }: Body) =>
            to?.some(({ podSelector }: Body) =>
              isDeepStrictEqual(podSelector, sandboxes.spec.podSelector),
            ),
          );
          expect(toSandboxes).toHaveLength(1);
          expect(toSandboxes[0]).not.toHaveProperty('ports');
          expect(
            toSandboxes[0].to[0].namespaceSelector.matchLabels?.['kubernetes.io/metadata.name'] ??
              sandboxes.metadata.namespace,
          ).toBe(sandboxes.metadata.namespace);
          const { namespaceSelector, podSelector } = ingress.from[index];
          expect(namespaceSelector.matchLabels['kubernetes.io/metadata.name']).toBe(
            metadata.namespace,
          );
          expect(rendered.one('Deployment', component).spec.template.metadata.labels).toMatchObject(
            podSelector.matchLabels,
          );
        }
      }
    }
  });

  it('lets the gateway ask the git hosts on the public internet, at their ports, and no other host', () => {
    const egressOf = (rendered: RenderedChart, component: string): readonly Body[] =>
      rendered.one('NetworkPolicy', component).spec.egress;
    const open = ({ to }: Body) => to?.[0].ipBlock?.except !== undefined;
    const ports = (rendered: RenderedChart) =>
      egressOf(rendered, '-gateway')
        .filter(open)
        .flatMap((rule: Body) => rule.ports.map(({ port }: Body) => port));
    expect(ports(chart)).toEqual([443]);
    expect(ports(full)).toEqual([443, 3000, 80, 3001]);
    const sandboxes = chart.one('NetworkPolicy', 'sandboxes').spec.egress.find(open);
    expect(egressOf(chart, '-gateway').find(open)?.to).toEqual(sandboxes.to);
    expect(egressOf(full, '-gateway').at(-1)).toEqual({
      to: [{ namespaceSelector: { matchLabels: { name: 'tools' } } }],
    });
    for (const each of [chart, full]) expect(egressOf(each, '-operator').filter(open)).toEqual([]);
  });

  it('opens nothing to the gateway for git hosts when it is closed', async () => {
    const values = { networkPolicies: { gateway: { internet: false } } };
    const { spec } = (await RenderedChart.of(4, { values })).one('NetworkPolicy', '-gateway');
    // Names, the API server, sandboxes and the operators.
    expect(spec.egress).toHaveLength(4);
  });

  it('mounts the credentials for git hosts in the gateway only, from a Secret that it has no right to read', () => {
    const podOf = (component: string): Body => full.one('Deployment', component).spec.template.spec;
    const { volumes, containers } = podOf('-gateway');
    const volume = volumes.find(({ secret }: Body) => secret.secretName === 'git');
    const mount = containers[0].volumeMounts.find(({ name }: Body) => name === volume.name);
    expect(mount).toMatchObject({
      readOnly: true,
      mountPath: readGatewayConfig(full.environment('gateway')).GIT_CREDENTIALS_DIR,
    });
    expect(JSON.stringify(podOf('-operator'))).not.toContain(volume.name);
    expect(readGatewayConfig(chart.environment('gateway')).GIT_CREDENTIALS_DIR).toBeUndefined();
    expect(chart.one('Deployment', 'gateway').spec.template.spec.volumes).toHaveLength(1);
  });

  it('mounts the key of the GitHub App in the gateway only, and nothing else of its Secret', () => {
    const podOf = (component: string): Body => full.one('Deployment', component).spec.template.spec;
    const { volumes, containers } = podOf('-gateway');
    const volume = volumes.find(({ secret }: Body) => secret?.secretName === 'github-app');
    const mount = containers[0].volumeMounts.find(({ name }: Body) => name === volume.name);
    const config = readGatewayConfig(full.environment('gateway'));
    expect(volume.secret.items).toEqual([{ key: 'key.pem', path: 'key.pem' }]);
    expect(mount.readOnly).toBe(true);
    expect(config).toMatchObject({
      GITHUB_APP_ID: '12345678',
      GITHUB_APP_PRIVATE_KEY_FILE: `${mount.mountPath}/key.pem`,
      GITHUB_APP_OWNERS: { alice: ['acme/*'], '*': ['acme/docs'] },
      GIT_API_URLS: {
        forgejo: 'http://git.tools:3001/api/v1',
        gitlab: 'https://gitlab.example.com',
      },
    });
    expect(JSON.stringify(podOf('-operator'))).not.toContain('github-app');
    const ofDefaults = readGatewayConfig(chart.environment('gateway'));
    expect(ofDefaults).toMatchObject({ GITHUB_APP_OWNERS: {}, GIT_API_URLS: {} });
    expect(ofDefaults.GITHUB_APP_ID).toBeUndefined();
  });

  it('refuses a GitHub App without the Secret of its key', async () => {
    const values = { gateway: { githubApp: { id: '12' } } };
    await expect(RenderedChart.of(4, { values })).rejects.toThrow(
      "gateway.githubApp.existingSecret has to name the Secret with the App's private key",
    );
  });

  it('gives the audit log a file of each gateway, on a volume that its group may write', () => {
    const spec: Body = full.one('Deployment', '-gateway').spec.template.spec;
    const [{ env, volumeMounts }] = spec.containers;
    const at = (name: string) => env.findIndex((variable: Body) => variable.name === name);
    expect(env[at('AUDIT_FILE')].value).toBe('/var/log/audit/$(POD_NAME).jsonl');
    // Kubernetes fills in variables of above alone.
    expect(at('POD_NAME')).toBeGreaterThan(0);
    expect(at('POD_NAME')).toBeLessThan(at('AUDIT_FILE'));
    expect(volumeMounts).toContainEqual({ name: 'audit', mountPath: '/var/log/audit' });
    expect(spec.volumes).toContainEqual({
      name: 'audit',
      persistentVolumeClaim: { claimName: 'audit' },
    });
    expect(spec.securityContext.fsGroup).toBe(spec.securityContext.runAsGroup);
    expect(JSON.stringify(full.one('Deployment', '-operator'))).not.toContain('AUDIT_FILE');
  });

  it('refuses a file of the audit log without its volume', async () => {
    const values = { gateway: { audit: { file: '/var/log/audit/a.jsonl' } } };
    await expect(RenderedChart.of(4, { values })).rejects.toThrow(
      'gateway.audit.file needs gateway.audit.volume, the volume of its folder',
    );
  });

  it('opens the git hosts to a gateway that checks nothing, and has credentials', async () => {
    const values = {
      gateway: { repositoryCheck: { enabled: false } },
      gitCredentials: { existingSecret: 'git' },
    };
    const { spec } = (await RenderedChart.of(4, { values })).one('NetworkPolicy', '-gateway');
    expect(spec.egress.at(-1).ports).toEqual([{ port: 443, protocol: 'TCP' }]);
  });

  it.each([
    ['operator', readOperatorConfig],
    ['relay', readRelayConfig],
  ] as const)(
    'mounts the keys of models in the %s, from a Secret that it has no right to read',
    (component, read) => {
      const { volumes, containers } = full.one('Deployment', `-${component}`).spec.template.spec;
      const volume = volumes.find(({ secret }: Body) => secret?.secretName === 'models');
      const mount = containers[0].volumeMounts.find(({ name }: Body) => name === volume.name);
      expect(mount).toMatchObject({
        readOnly: true,
        mountPath: read(full.environment(component)).AGENT_CREDENTIALS_DIR,
      });
      expect(read(withRelay.environment(component)).AGENT_CREDENTIALS_DIR).toBeUndefined();
      expect(withRelay.one('Deployment', component).spec.template.spec.volumes).toHaveLength(1);
    },
  );

  it('gives the gateway the prices of models', async () => {
    const prices = [
      { model: 'gpt-5*', inputPerMillion: 1.25, outputPerMillion: 10 },
      {
        model: 'llama-*',
        inputPerMillion: 0.2,
        outputPerMillion: 0.6,
        cachedInputPerMillion: 0.02,
        cacheWritePerMillion: 0.2,
        contextWindow: 1_048_576,
      },
    ];
    const rendered = await RenderedChart.of(4, { values: { models: { prices } } });
    expect(readGatewayConfig(rendered.environment('gateway')).MODELS_PRICES).toEqual(prices);
    expect(readGatewayConfig(chart.environment('gateway')).MODELS_PRICES).toEqual([]);
  });

  it.each([
    [{ replicas: 3 }, [6, 133_333, 1, 1]],
    [{ autoscaling: { enabled: true, maxReplicas: 6 } }, [3, 66_666, 1, 1]],
    [{ replicas: 1 }, [20, 400_000, 4, 1]],
  ])('gives each gateway of %j its part of the limits of keys', async (gateway, parts) => {
    const [calls, tokensPerMinute, callsOfOwner, tokensOfOwner] = parts;
    const limits = [
      { credential: 'team', calls: 20, tokensPerMinute: 400_000, perOwner: { calls: 4 } },
      { credential: 'other', perOwner: { tokensPerMinute: 1 } },
    ];
    const rendered = await RenderedChart.of(4, { values: { models: { limits }, gateway } });
    expect(readGatewayConfig(rendered.environment('gateway')).MODELS_LIMITS).toEqual([
      { credential: 'team', calls, tokensPerMinute, perOwner: { calls: callsOfOwner } },
      { credential: 'other', perOwner: { tokensPerMinute: tokensOfOwner } },
    ]);
    expect(readGatewayConfig(chart.environment('gateway')).MODELS_LIMITS).toEqual([]);
  });

  it('gives each relay of its own its part of the limits of keys, and the gateway none', async () => {
    const limits = [{ credential: 'team', calls: 20 }];
    const values = { models: { limits }, relay: { replicas: 4 }, gateway: { replicas: 3 } };
    const rendered = await RenderedChart.of(4, { values });
    expect(readRelayConfig(rendered.environment('relay')).MODELS_LIMITS).toEqual([
      { credential: 'team', calls: 5 },
    ]);
    expect(readGatewayConfig(rendered.environment('gateway')).MODELS_LIMITS).toEqual([]);
  });

  describe('with an archive', () => {
    const render = (name: string): Promise<RenderedChart> => {
      const values = valueSets[name];
      if (values === undefined) throw new Error(`there are no values of ${name}`);
      return RenderedChart.of(4, { values });
    };
    const podOf = (rendered: RenderedChart, component: string): Body =>
      rendered.one('Deployment', component).spec.template.spec;
    const mountsOf = (rendered: RenderedChart, component: string): readonly Body[] =>
      podOf(rendered, component).containers[0].volumeMounts.filter(({ name }: Body) =>
        name.startsWith('archive'),
      );
    const placesOf = (rendered: RenderedChart): readonly ArchiveConfig[] => [
      archiveConfigOf(readOperatorConfig(rendered.environment('operator'))),
      archiveConfigOf(readGatewayConfig(rendered.environment('gateway'))),
    ];

    it('has none, and no volume of one, by default', () => {
      expect(placesOf(chart)).toEqual([undefined, undefined]);
      expect(chart.all('PersistentVolumeClaim')).toEqual([]);
      for (const component of ['operator', 'gateway']) {
        expect(mountsOf(chart, component)).toEqual([]);
        expect(podOf(chart, component).securityContext).not.toHaveProperty('fsGroup');
      }
    });

    it('mounts the claim that it makes where the processes expect it, to write in the operator only', async () => {
      const rendered = await render('an archive on a claim that it makes');
      const { metadata, spec } = rendered.one('PersistentVolumeClaim');
      expect(metadata).toMatchObject({
        namespace: rendered.one('Deployment', 'operator').metadata.namespace as string,
        annotations: { 'helm.sh/resource-policy': 'keep' },
      });
      expect(spec).toEqual({
        accessModes: ['ReadWriteOnce'],
        storageClassName: 'files',
        resources: { requests: { storage: '100Gi' } },
      });
      const directory = '/var/lib/conversation-operator/archive';
      const place = { kind: 'folder', directory, encrypt: true };
      expect(placesOf(rendered)).toEqual([place, place]);
      expect(mountsOf(rendered, 'operator')).toEqual([{ name: 'archive', mountPath: directory }]);
      expect(mountsOf(rendered, 'gateway')).toEqual([
        { name: 'archive', mountPath: directory, readOnly: true },
      ]);
      for (const component of ['operator', 'gateway']) {
        const { securityContext, volumes } = podOf(rendered, component);
        expect(volumes).toContainEqual({
          name: 'archive',
          persistentVolumeClaim: { claimName: metadata.name as string },
        });
        expect(securityContext).toMatchObject({
          runAsGroup: 10001,
          fsGroup: 10001,
          fsGroupChangePolicy: 'OnRootMismatch',
        });
      }
    });

    it('mounts a claim of others, and leaves the group to a platform that chooses users', async () => {
      const rendered = await render(
        'an archive on a claim of others, where the platform chooses users',
      );
      expect(rendered.all('PersistentVolumeClaim')).toEqual([]);
      for (const component of ['operator', 'gateway']) {
        const { securityContext, volumes } = podOf(rendered, component);
        expect(volumes).toContainEqual({
          name: 'archive',
          persistentVolumeClaim: { claimName: 'history' },
        });
        expect(securityContext).not.toHaveProperty('fsGroup');
      }
    });

    it("keeps the group that the values name for the volume's files", async () => {
      const rendered = await RenderedChart.of(4, {
        values: { archive: { claim: 'history' }, podSecurityContext: { fsGroup: 2000 } },
      });
      expect(podOf(rendered, 'operator').securityContext).toEqual({
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
        runAsUser: 10001,
        runAsGroup: 10001,
        fsGroup: 2000,
      });
    });

    it('names the bucket to both, with the identities of their service accounts', async () => {
      const rendered = await render('an archive in a bucket of AWS');
      const place = {
        kind: 's3',
        bucket: 'acme-history',
        region: 'eu-central-1',
        prefix: '',
        endpoint: undefined,
        pathStyle: false,
        encrypt: false,
        kmsKeyId: undefined,
        serverSideEncryption: 'aws:kms',
        credentialsDirectory: undefined,
      };
      expect(placesOf(rendered)).toEqual([place, place]);
      for (const [component, role] of [
        ['operator', 'w'],
        ['gateway', 'r'],
      ] as const) {
        expect(mountsOf(rendered, component)).toEqual([]);
        expect(rendered.one('ServiceAccount', component).metadata.annotations).toEqual({
          'eks.amazonaws.com/role-arn': `arn:aws:iam::1:role/${role}`,
        });
      }
    });

    it('mounts the keys of a bucket in both, from a Secret that they have no right to read', async () => {
      const rendered = await render('an archive in a bucket of another store');
      const [config, same] = placesOf(rendered);
      expect(same).toEqual(config);
      expect(config).toEqual({
        kind: 's3',
        bucket: 'history',
        region: 'eu-north-1',
        prefix: 'team/agents',
        endpoint: 'http://minio.storage.svc:9000',
        pathStyle: false,
        encrypt: true,
        serverSideEncryption: 'aws:kms',
        kmsKeyId: 'alias/history',
        credentialsDirectory: '/etc/conversation-operator/archive-credentials',
      });
      for (const component of ['operator', 'gateway']) {
        const { volumes } = podOf(rendered, component);
        const volume = volumes.find(({ secret }: Body) => secret.secretName === 'bucket-keys');
        expect(mountsOf(rendered, component)).toEqual([
          {
            name: volume.name as string,
            mountPath: '/etc/conversation-operator/archive-credentials',
            readOnly: true,
          },
        ]);
      }
      expect(rendered.all('Role')).toEqual(chart.all('Role'));
    });

    it('says at the end of an install where history is kept, and where it is not', async () => {
      // Without a cluster, only the template itself has the notes.
      const notesOf = async (values: object): Promise<string> =>
        helm(
          4,
          ['install', 'co', chartFolder, '--dry-run=client', '--namespace', 'a', '--values', '-'],
          JSON.stringify(values),
        );
      expect(await notesOf({})).toContain(
        'History of conversations exists only while their agents run',
      );
      expect(await notesOf({ archive: { claim: 'mine' } })).toContain(
        'History is kept on the claim mine:',
      );
      expect(await notesOf({ archive: { s3: { bucket: 'acme', prefix: 'a' } } })).toContain(
        'History is kept in the bucket acme, under a/:',
      );
    });
  });

  it('gives the default template what agents are to work with, and no key', () => {
    expect(full.one('SandboxTemplate').spec.agent).toEqual({
      kind: 'openhands',
      port: 8000,
      workingDir: '/workspace',
      model: 'm',
      baseUrl: 'https://models.example/v1',
      credential: 'openai',
      allowedModels: ['openai/gpt-5*'],
      tools: [],
      confirmationPolicy: 'ConfirmRisky',
      maxIterations: 200,
    });
    expect(chart.one('SandboxTemplate').spec.agent).toEqual({
      kind: 'openhands',
      port: 8000,
      workingDir: '/workspace',
    });
  });

  it('selects pods by labels that they have', () => {
    const labels = ({ spec }: Body) => spec.template.metadata.labels;
    for (const component of ['operator', 'gateway', 'relay']) {
      const has = labels(full.one('Deployment', component));
      expect(has).toMatchObject(
        full.one('PodDisruptionBudget', component).spec.selector.matchLabels,
      );
      expect(has).toMatchObject(full.one('NetworkPolicy', component).spec.podSelector.matchLabels);
      expect(has).toMatchObject(full.one('Service', 'metrics').spec.selector);
    }
    expect(labels(chart.one('Deployment', 'gateway'))).toMatchObject(
      chart.one('Service', 'gateway').spec.selector,
    );
  });

  it('gives rights by Roles only, unless all namespaces are asked for', async () => {
    const ofAll = [
      'an operator of every namespace',
      'an operator of shards',
      'programs whose tokens are reviewed',
    ];
    for (const set of Object.keys(valueSets).filter((name) => !ofAll.includes(name))) {
      const rendered = await RenderedChart.of(4, { values: valueSets[set] ?? {} });
      expect(rendered.kinds()).not.toContain('ClusterRole');
    }
    const everywhere = await RenderedChart.of(4, {
      values: valueSets['an operator of every namespace'] ?? {},
    });
    expect(everywhere.one('ClusterRole').rules).toEqual(chart.one('Role', '-operator').rules);
  });

  it('lets the gateway ask about tokens only where tokens are reviewed', async () => {
    const rendered = await RenderedChart.of(4, {
      values: valueSets['programs whose tokens are reviewed'] ?? {},
    });
    const { metadata, rules } = rendered.one('ClusterRole');
    const { group, resources, verbs } = tokenReviewRule;
    expect(rules).toEqual([{ apiGroups: [group], resources, verbs }]);
    const { roleRef, subjects } = rendered.one('ClusterRoleBinding');
    expect([roleRef.name, subjects]).toEqual([
      metadata.name,
      rendered.one('RoleBinding', '-gateway').subjects,
    ]);
    expect(rendered.all('Role')).toEqual(chart.all('Role'));
    const { env } = rendered.one('Pod', '-check').spec.containers[0];
    expect(env).toContainEqual({ name: 'TOKEN_REVIEW', value: 'true' });
  });

  it.each<[string, object, RegExp]>([
    ['a claim without a value', { claim: 'groups', role: 'user' }, /value/],
    ['a condition beside a claim', { claim: 'a', value: 'b', when: 'true', role: 'user' }, /oneOf/],
    ['an unknown role', { when: 'true', role: 'root' }, /role/],
  ])('refuses a rule of an issuer with %s', async (_case, rule, message) => {
    const issuer = { name: 'a', issuer: 'https://a.example', clientId: 'a', rules: [rule] };
    const values = { gateway: { publicUrl: 'https://b.example', signIn: { issuers: [issuer] } } };
    await expect(RenderedChart.of(4, { values })).rejects.toThrow(message);
  });

  it('lets an operator of all namespaces hold the Leases of any number of shards', async () => {
    const rendered = await RenderedChart.of(4, {
      values: valueSets['an operator of shards'] ?? {},
    });
    const { rules } = rendered.one('Role', '-operator-lease');
    expect(rules[1].resourceNames).toEqual([
      'conversation-operator',
      ...Array.from({ length: 64 }, (_, shard) => `conversation-operator-${shard}`),
    ]);
    expect(rules[2]).toMatchObject({ resources: ['leases'], verbs: ['list'] });
  });

  it('gives exactly the rights that docs/security.md lists, and none on Secrets', () => {
    const rows = withRelay.all('Role').flatMap(({ metadata, rules }: Body) =>
      rules.flatMap(({ apiGroups, resources, resourceNames, verbs }: Body) =>
        resources.map((resource: string) => {
          const [plural = '', part] = resource.split('/');
          const name = `${[plural, ...apiGroups].filter((text) => text !== '').join('.')}${part === undefined ? '' : `/${part}`}`;
          const account = /-(operator|gateway|relay|check)(-lease|-initial-objects)?$/.exec(
            metadata.name,
          )?.[1];
          return `${account} ${name}${resourceNames === undefined ? '' : ` (${resourceNames.join(' ')})`} ${verbs.join(' ')}`;
        }),
      ),
    );
    // The items below "The account `operator`", with verbs before resources, each item on one line.
    const [, section = ''] = read('docs/security.md').split('## Rights in the cluster');
    const [rights = ''] = section.replaceAll(/\n {2,}/g, ' ').split('\n## ');
    const documented = rights
      .split('The account `')
      .slice(1)
      .flatMap((part) => {
        const [account = ''] = part.split('`');
        return [...part.matchAll(/^- ([a-z ]+): ([a-z].*)$/gm)].flatMap(
          ([, verbs = '', resources = '']) =>
            resources.split(', ').map((resource) => `${account} ${resource} ${verbs}`),
        );
      });
    expect(rows.sort()).toEqual(documented.sort());
    expect(rows.filter((row: string) => /secret|\*/i.test(row))).toEqual([]);
  });
});

describe('the check of `helm test`', () => {
  const render = (values: object = {}) => RenderedChart.of(4, { values });
  const podOf = (chart: RenderedChart): Body => chart.one('Pod', '-check').spec;
  const settingsOf = (chart: RenderedChart) =>
    readCheckConfig(
      Object.fromEntries(
        podOf(chart).containers[0].env.map(({ name, value }: Body) => [name, value]),
      ),
    );
  const skippedOf = (chart: RenderedChart): readonly string[] => {
    const [, skip = '--skip='] = podOf(chart).containers[0].args as readonly string[];
    const list = skip.replace('--skip=', '');
    // Throws for a name that is no check.
    const left = new Set(chosenChecks(list).map(({ name }) => name));
    return allChecks.map(({ name }) => name).filter((name) => !left.has(name));
  };

  it('asks for the rights that the Roles of all processes grant', async () => {
    const chart = await render({ relay: { replicas: 2 } });
    const rightsOf = (rules: readonly Body[]) =>
      rules
        .flatMap(({ apiGroups, group: one, resources, verbs, resourceNames, name }: Body) =>
          resources.flatMap((resource: string) =>
            verbs.map((verb: string) =>
              [one ?? apiGroups[0], resource, verb, name ?? resourceNames?.[0] ?? '*'].join(' '),
            ),
          ),
        )
        .sort();
    for (const account of ['operator', 'gateway', 'relay'] as const) {
      const granted = chart
        .all('Role')
        .filter(({ metadata }: Body) =>
          new RegExp(`-${account}(-lease)?$`).test(metadata.name as string),
        )
        .flatMap(({ rules }: Body) => rules as Body[]);
      expect(rightsOf(accountRules[account])).toEqual(rightsOf(granted));
    }
  });

  it('tries before an installation the pods that the default template makes', async () => {
    const { spec } = (await render()).one('SandboxTemplate');
    const planned = plannedTemplate({
      namespace: 'agents-sandboxes',
      image: spec.podTemplate.spec.containers[0].image,
    });
    expect(planned.spec.podTemplate).toEqual(spec.podTemplate);
    expect(planned.spec.storage).toEqual(spec.storage);
  });

  it('has the settings of the installation, and an account without Secrets', async () => {
    const chart = await render({
      gitHosts: [{ provider: 'github', url: 'https://github.example.com' }],
      gitCredentials: { existingSecret: 'git' },
      archive: { s3: { bucket: 'history', secretName: 'keys' } },
      gateway: { env: [{ name: 'HTTPS_PROXY', value: 'http://proxy:3128' }] },
    });
    expect(settingsOf(chart)).toMatchObject({
      NAMESPACE: 'agents-sandboxes',
      RELEASE_NAMESPACE: 'agents',
      GIT_HOSTS: { github: 'https://github.example.com' },
      GIT_CREDENTIALS_DIR: '/etc/conversation-operator/git-credentials',
      ARCHIVE_S3_BUCKET: 'history',
      HTTPS_PROXY: 'http://proxy:3128',
      IMAGE: podOf(chart).containers[0].image as string,
    });
    expect(settingsOf(chart).RELAY_ACCOUNT).toBeUndefined();
    expect(settingsOf(await render({ relay: { replicas: 1 } })).RELAY_ACCOUNT).toBe(
      'agents/conversation-operator-relay',
    );
    for (const account of ['operator', 'gateway'])
      expect(settingsOf(chart)).toMatchObject({
        [`${account.toUpperCase()}_ACCOUNT`]: `agents/${chart.one('ServiceAccount', `-${account}`).metadata.name}`,
      });
    const { rules } = chart.one('Role', '-check');
    expect(JSON.stringify(rules)).not.toMatch(/secrets|\*|"patch"|"update"/);
    expect(skippedOf(chart)).toEqual([
      'definitions',
      'runtime-class',
      'architecture',
      'storage-class',
    ]);
  });

  it('goes out of the cluster as the gateway does', async () => {
    const chart = await render({
      proxy: { https: 'http://192.0.2.1:3128', noProxy: ['.corp.example.com'] },
      trust: { configMap: 'company-ca' },
      gateway: { env: [{ name: 'HTTPS_PROXY', value: 'http://192.0.2.2:3128' }] },
    });
    const names = ['HTTPS_PROXY', 'HTTP_PROXY', 'NO_PROXY', 'TRUST_FILE'];
    const outwardOf = ({ containers, volumes }: Body) => {
      const { configMap } = volumes.find(({ name }: Body) => name === 'trust');
      const { optional = false, ...object } = configMap;
      return {
        env: containers[0].env.filter(({ name }: Body) => names.includes(name as string)),
        mount: containers[0].volumeMounts.find(({ name }: Body) => name === 'trust'),
        object,
        optional,
      };
    };
    const wanted = outwardOf(chart.one('Deployment', '-gateway').spec.template.spec);
    expect(wanted.env.map(({ name }: Body) => name as string).sort()).toEqual([
      ...['HTTPS_PROXY', 'NO_PROXY', 'TRUST_FILE'],
    ]);
    const { env, ...mounted } = outwardOf(podOf(chart));
    // Without the object the processes do not start, and the check says so.
    expect(mounted).toEqual({ mount: wanted.mount, object: wanted.object, optional: true });
    expect(wanted.optional).toBe(false);
    expect(env).toHaveLength(3);
    expect(env).toEqual(expect.arrayContaining(wanted.env as Body[]));
  });

  it('makes the pods of sandboxes as the operator does', async () => {
    const chart = await render({
      proxy: { https: 'http://192.0.2.1:3128', noProxy: ['.corp.example.com'] },
      trust: { configMap: 'company-ca' },
      operator: { env: [{ name: 'SANDBOX_TRUST_KEY', value: 'root.pem' }] },
    });
    const [{ env }] = chart.one('Deployment', '-operator').spec.template.spec.containers;
    const operator = readOperatorConfig(
      Object.fromEntries(env.map(({ name, value }: Body) => [name, value])),
    );
    expect(sandboxOutwardOf(settingsOf(chart))).toEqual(sandboxOutwardOf(operator));
    expect(sandboxOutwardOf(operator)).toMatchObject({
      proxy: { https: 'http://192.0.2.1:3128' },
      trust: { kind: 'ConfigMap', name: 'company-ca', key: 'root.pem' },
    });
  });

  it.each([
    [3, 'before-hook-creation,hook-succeeded', undefined],
    [4, 'before-hook-creation,hook-succeeded,hook-failed', 'hook-failed'],
  ] as const)(
    'leaves no failed pod behind where Helm has printed its log, as Helm %i',
    async (version, deleted, printed) => {
      // Helm 3.17.3 prints no logs; 3.18 and later do.
      const { resources } = await RenderedChart.of(version, {});
      const pods = resources.filter(({ kind }: Body) => kind === 'Pod');
      expect(pods).toHaveLength(2);
      for (const { metadata } of pods)
        expect([
          metadata.annotations['helm.sh/hook-delete-policy'],
          metadata.annotations['helm.sh/hook-output-log-policy'],
        ]).toEqual([deleted, printed]);
    },
  );

  it('exists while the test runs, and reads the cluster where a value allows it', async () => {
    const chart = await render({ check: { clusterRights: true, skip: ['network-policy'] } });
    const hooks = chart.resources.filter(
      ({ metadata }: Body) => metadata.labels?.['app.kubernetes.io/component'] === 'check',
    );
    expect(hooks.map(({ kind }: Body) => kind as string).sort()).toEqual([
      ...['ClusterRole', 'ClusterRoleBinding', 'Pod', 'Role', 'RoleBinding', 'ServiceAccount'],
    ]);
    for (const { metadata } of hooks) expect(metadata.annotations['helm.sh/hook']).toBe('test');
    expect(skippedOf(chart)).toEqual(['network-policy', 'bucket']);
    expect(chart.one('ClusterRole', '-check').rules.map(({ verbs }: Body) => verbs[0])).toEqual([
      ...['get', 'list', 'list', 'list'],
    ]);
    const without = await render({ check: { enabled: false } });
    expect(without.resources.filter(({ metadata }: Body) => /-check$/.test(metadata.name))).toEqual(
      [],
    );
  });

  it('knows the names of all checks in its schema', async () => {
    const skip = allChecks.map(({ name }) => name);
    expect(skippedOf(await render({ check: { skip } }))).toEqual(skip);
    await expect(render({ check: { skip: ['rainfall'] } })).rejects.toThrow('skip');
  });
});

describe('generated files (`make manifests` writes them anew)', () => {
  it('are the plain manifests', async () => {
    const present = readdirSync(join(root, 'manifests')).filter((name) => name.endsWith('.yaml'));
    expect(new Map(present.map((name) => [name, read(`manifests/${name}`)]))).toEqual(
      await manifests(),
    );
  });

  it('are the document of all values', async () => {
    expect(read('docs/values.md')).toBe(await valuesDocument());
  });
});

describe('values.yaml', () => {
  it('names every value that the schema knows', () => {
    const schema = valuesSchema();
    const named = new Set(
      chartValues().values.flatMap(({ path }) =>
        path.map((_, index) => path.slice(0, index + 1).join('.')),
      ),
    );
    const missing: string[] = [];
    const walk = (node: typeof schema | undefined, path: readonly string[]): void => {
      const resolved =
        node?.$ref === undefined
          ? node
          : schema.definitions?.[node.$ref.replace('#/definitions/', '')];
      for (const [name, inner] of Object.entries(resolved?.properties ?? {})) {
        const here = [...path, name];
        if (name === 'resources' || name === 'global') continue;
        if (!named.has(here.join('.'))) missing.push(here.join('.'));
        walk(inner, here);
      }
    };
    walk(schema, []);
    expect(missing).toEqual([]);
  });
});
