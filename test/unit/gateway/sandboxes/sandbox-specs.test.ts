import { presentSandboxSpec } from '../../../../src/gateway/sandboxes/sandbox-specs.ts';
import type { SandboxTemplate } from '../../../../src/resources/sandbox-template.ts';

const template = (agent: object, status?: object): SandboxTemplate =>
  ({
    apiVersion: 'conversation-operator.dev/v1alpha1',
    kind: 'SandboxTemplate',
    metadata: { name: 'small', namespace: 'default', creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: {
      podTemplate: { spec: { containers: [] } },
      agent: { workingDir: '/workspace', ...agent },
    },
    status,
  }) as unknown as SandboxTemplate;

describe('presentSandboxSpec', () => {
  it.each<[string, 'True' | 'False' | 'Unknown', string | null]>([
    ['valid', 'True', null],
    ['not checked yet', 'Unknown', null],
    ['invalid', 'False', 'spec.containers: Required value'],
  ])('says why a template is invalid: %s', (_case, status, reason) => {
    const valid = {
      type: 'Valid',
      status,
      reason: 'PodInvalid',
      message: 'spec.containers: Required\u001b value',
      lastTransitionTime: '',
    };
    expect(presentSandboxSpec(template({}, { conditions: [valid] })).invalid_reason).toBe(reason);
  });

  it.each([
    [{}, { kind: 'openhands', name: 'openhands', asks: false }],
    [{ confirmationPolicy: 'NeverConfirm' }, { kind: 'openhands', name: 'openhands', asks: false }],
    [
      { kind: 'acp', acp: { agent: 'codex' } },
      { kind: 'acp', name: 'codex', asks: true },
    ],
    [
      { kind: 'acp', acp: { agent: 'codex' }, confirmationPolicy: 'NeverConfirm' },
      { kind: 'acp', name: 'codex', asks: false },
    ],
    [
      { kind: 'acp', acp: { agent: 'codex' }, confirmationPolicy: 'AlwaysConfirm' },
      { kind: 'acp', name: 'codex', asks: true },
    ],
    [
      { kind: 'acp', acp: { command: ['my-agent'] }, confirmationPolicy: 'ConfirmRisky' },
      { kind: 'acp', name: 'acp', asks: true },
    ],
  ])('has the agent of %j', (agent, expected) => {
    expect(presentSandboxSpec(template(agent)).agent).toEqual(expected);
  });

  it('has the models that a start may name', () => {
    expect(
      presentSandboxSpec(template({ model: 'small-1', allowedModels: ['big-*'] })),
    ).toMatchObject({ default_model: 'small-1', allowed_models: ['big-*'] });
    expect(presentSandboxSpec(template({}))).toMatchObject({
      default_model: null,
      allowed_models: null,
    });
  });
});
