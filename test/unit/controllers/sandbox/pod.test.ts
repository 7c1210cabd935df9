import { buildPod } from '../../../../src/controllers/sandbox/pod.ts';
import type { AcpSettings } from '../../../../src/resources/acp-settings.ts';
import type { SandboxState } from '../../../../src/resources/sandbox.ts';
import type { SandboxTemplateSpec } from '../../../../src/resources/sandbox-template.ts';
import { aSandbox, aTemplate } from '../../../support/builders.ts';

type PodSpec = NonNullable<SandboxTemplateSpec['podTemplate']['spec']>;

const podOf = (spec: Partial<PodSpec> = {}) =>
  buildPod(
    aSandbox(),
    aTemplate({
      podTemplate: { spec: { containers: [{ name: 'agent', image: 'agent:1' }], ...spec } },
    }),
    { bootstrapKey: 'bootstrap-key' },
  ).spec;

const restricted = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } };

describe('the pod of a sandbox', () => {
  it('is what the Pod Security Standard restricted asks for, when the template says nothing', () => {
    const spec = podOf();
    expect(spec?.securityContext).toEqual({
      runAsNonRoot: true,
      seccompProfile: { type: 'RuntimeDefault' },
    });
    expect(spec?.containers[0]?.securityContext).toEqual(restricted);
    expect(spec?.automountServiceAccountToken).toBe(false);
  });

  it('stays so when the template adds to the security contexts', () => {
    const spec = podOf({
      securityContext: { fsGroup: 10_001 },
      containers: [
        { name: 'agent', image: 'agent:1', securityContext: { readOnlyRootFilesystem: true } },
      ],
    });
    expect(spec?.securityContext).toEqual({
      runAsNonRoot: true,
      seccompProfile: { type: 'RuntimeDefault' },
      fsGroup: 10_001,
    });
    expect(spec?.containers[0]?.securityContext).toEqual({
      ...restricted,
      readOnlyRootFilesystem: true,
    });
  });

  it('holds every other container to the same', () => {
    const spec = podOf({
      initContainers: [{ name: 'prepare', image: 'prepare:1' }],
      containers: [
        { name: 'agent', image: 'agent:1' },
        { name: 'database', image: 'database:1' },
      ],
    });
    expect(
      [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])].map(
        ({ securityContext }) => securityContext,
      ),
    ).toEqual([restricted, restricted, restricted]);
  });

  it('gives way to a template that says otherwise', () => {
    const spec = podOf({ securityContext: { runAsNonRoot: false, runAsUser: 0 } });
    expect(spec?.securityContext).toMatchObject({ runAsNonRoot: false, runAsUser: 0 });
  });

  it('takes where and how it runs from the template', () => {
    const placement: Partial<PodSpec> = {
      runtimeClassName: 'gvisor',
      nodeSelector: { pool: 'agents' },
      tolerations: [{ key: 'agents', operator: 'Exists' }],
      imagePullSecrets: [{ name: 'registry' }],
      priorityClassName: 'low',
    };
    expect(podOf(placement)).toMatchObject(placement);
  });

  it('has no service account token, whatever the template says', () => {
    expect(podOf({ automountServiceAccountToken: true })?.automountServiceAccountToken).toBe(false);
  });

  it('keeps the labels and annotations of the template, but for those that are reserved', () => {
    const reserved = {
      'app.kubernetes.io/managed-by': 'x',
      'conversation-operator.dev/sandbox': 'x',
      'conversation-operator.dev/more': 'x',
    };
    const template = aTemplate({
      podTemplate: {
        metadata: {
          labels: { team: 'a', ...reserved },
          annotations: { note: 'b', 'conversation-operator.dev/owner': 'mallory' },
        },
        spec: { containers: [{ name: 'agent', image: 'agent:1' }] },
      },
    });
    const { metadata } = buildPod(aSandbox(), template, { bootstrapKey: 'bootstrap-key' });
    expect(metadata.labels).toEqual({
      team: 'a',
      'app.kubernetes.io/managed-by': 'conversation-operator',
      'conversation-operator.dev/sandbox': 'sbx-1',
    });
    expect(metadata.annotations).toMatchObject({
      note: 'b',
      'conversation-operator.dev/owner': 'alice',
    });
  });
});

describe('the environment of the agent', () => {
  const envOf = (container: Partial<PodSpec['containers'][number]> = {}, namespace = 'default') => {
    const template = aTemplate({
      agent: { workingDir: '/work' },
      podTemplate: {
        spec: {
          containers: [
            { name: 'agent', image: 'agent:1', ...container },
            { name: 'database', image: 'database:1' },
          ],
        },
      },
    });
    const { spec } = buildPod(aSandbox(), template, {
      bootstrapKey: 'bootstrap-key',
      agentSide: { url: 'http://gateway.operator.svc', namespace },
    });
    expect(spec?.containers[1]?.env).toBeUndefined();
    return (spec?.containers[0]?.env ?? []).filter(({ name }) => name.startsWith('GIT_'));
  };
  const own = (name: string) => ({ env: [{ name, value: 'own' }] });
  const settings = (value: string) => [{ name: 'GIT_CONFIG_SYSTEM', value }];

  it.each([
    ['names the settings of git', envOf(), settings('/work/.agent/git/config')],
    [
      'names them in the folder in which the agent starts',
      envOf({ workingDir: '/work/sub' }),
      settings('/work/sub/.agent/git/config'),
    ],
    ['keeps the settings of the template', envOf(own('GIT_CONFIG_SYSTEM')), settings('own')],
    [
      'keeps a template without system settings',
      envOf(own('GIT_CONFIG_NOSYSTEM')),
      own('GIT_CONFIG_NOSYSTEM').env,
    ],
    ['has none in another namespace', envOf({}, 'another'), []],
  ])('%s', (_sentence, env, expected) => {
    expect(env).toEqual(expected);
  });

  it('has none where sandboxes do not reach the gateway', () => {
    expect(podOf()?.containers[0]?.env?.filter(({ name }) => name.startsWith('GIT_'))).toEqual([]);
  });
});

describe('the bridge to an agent of the Agent Client Protocol', () => {
  const settingsOf = (acp: AcpSettings, status: Partial<SandboxState> = {}) => {
    const env = buildPod(
      aSandbox({ status }),
      aTemplate({
        agent: { kind: 'acp', workingDir: '/workspace', acp },
        podTemplate: {
          spec: {
            containers: [
              { name: 'agent', image: 'agent:1', env: [{ name: 'ACP_AGENT', value: 'gemini' }] },
            ],
          },
        },
      }),
      { bootstrapKey: 'bootstrap-key' },
    ).spec?.containers[0]?.env;
    expect(env).toContainEqual({ name: 'OH_DEFERRED_INIT', value: 'true' });
    return Object.fromEntries(
      (env ?? [])
        .filter(({ name }) => name.startsWith('ACP_'))
        .map(({ name, value }) => [name, value]),
    );
  };
  const named = { ACP_AGENT: 'codex', ACP_COMMAND: '', ACP_ALLOW_ALWAYS: 'false' };
  const codex: AcpSettings = { agent: 'codex', allowAlways: false };
  const command: AcpSettings = { command: ['my-agent', '--acp'], allowAlways: false };
  const ofCommand = {
    ACP_AGENT: '',
    ACP_COMMAND: '["my-agent","--acp"]',
    ACP_ALLOW_ALWAYS: 'false',
  };

  it.each<[string, AcpSettings, Partial<SandboxState>, object]>([
    ['has the name of the agent', codex, {}, named],
    ['has the command of the agent', command, {}, ofCommand],
    [
      'has the name that the sandbox keeps',
      { agent: 'claude', allowAlways: false },
      { agentKind: 'acp', agentName: 'codex' },
      named,
    ],
    [
      'has it also when the template has a command now',
      command,
      { agentKind: 'acp', agentName: 'codex' },
      named,
    ],
    [
      'has the name of the template where the sandbox keeps none',
      codex,
      { agentKind: 'acp' },
      named,
    ],
    [
      'has nothing more than its container for a sandbox of another kind',
      codex,
      { agentKind: 'openhands' },
      { ACP_AGENT: 'gemini' },
    ],
  ])('%s', (_case, acp, status, expected) => {
    expect(settingsOf(acp, status)).toEqual(expected);
  });

  it('has the settings of the template, and servers as session/new takes them', () => {
    const { ACP_ENV, ACP_MCP_SERVERS, ...rest } = settingsOf({
      agent: 'codex',
      mode: 'read-only',
      env: { A: 'b' },
      allowAlways: true,
      mcpServers: [
        { name: 'docs', url: 'https://docs' },
        { name: 'events', url: 'https://events', type: 'sse' },
        { name: 'files', command: 'mcp-files', args: ['--root'], env: { C: 'd' } },
        { name: 'plain', command: 'mcp-plain' },
      ],
    });
    expect(rest).toEqual({ ...named, ACP_MODE: 'read-only', ACP_ALLOW_ALWAYS: 'true' });
    expect(JSON.parse(ACP_ENV ?? '')).toEqual({ A: 'b' });
    expect(JSON.parse(ACP_MCP_SERVERS ?? '')).toEqual([
      { type: 'http', name: 'docs', url: 'https://docs', headers: [] },
      { type: 'sse', name: 'events', url: 'https://events', headers: [] },
      { name: 'files', command: 'mcp-files', args: ['--root'], env: [{ name: 'C', value: 'd' }] },
      { name: 'plain', command: 'mcp-plain', args: [], env: [] },
    ]);
  });
});
