import { buildPod } from '../../../src/controllers/sandbox/pod.ts';
import type { SandboxTemplateSpec } from '../../../src/resources/sandbox-template.ts';
import { aSandbox, aTemplate } from '../../support/builders.ts';

type PodSpec = NonNullable<SandboxTemplateSpec['podTemplate']['spec']>;

const podOf = (spec: Partial<PodSpec> = {}) =>
  buildPod(
    aSandbox(),
    aTemplate({
      podTemplate: { spec: { containers: [{ name: 'agent', image: 'agent:1' }], ...spec } },
    }),
    'bootstrap-key',
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
    const { metadata } = buildPod(aSandbox(), template, 'bootstrap-key');
    expect(metadata.labels).toEqual({
      team: 'a',
      'app.kubernetes.io/managed-by': 'conversation-operator',
      'conversation-operator.dev/sandbox': 'sbx-1',
    });
    expect(metadata.annotations).toEqual({ note: 'b', 'conversation-operator.dev/owner': 'alice' });
  });
});
