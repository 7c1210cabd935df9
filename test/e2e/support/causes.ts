import { apply, kubectl } from './cluster.ts';
import { readFacts } from './installation.ts';

const { sandboxes, tools } = readFacts();

/** Names of objects without a namespace, so that two runs on one cluster don't meet. */
export const priorityClass = `${sandboxes}-limited`;
export const policyName = `${sandboxes}-policy`;
export const webhookName = `${sandboxes}.webhook.e2e.local`;
const causeLabel = 'e2e-cause';

/** Creates limits that refuse pods as platforms do, each for the pods of one case only. */
export async function restrictNamespace(): Promise<void> {
  const inNamespace = {
    namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': sandboxes } },
  };
  const podsCreated = {
    apiGroups: [''],
    apiVersions: ['v1'],
    operations: ['CREATE'],
    resources: ['pods'],
  };
  await apply(
    {
      apiVersion: 'scheduling.k8s.io/v1',
      kind: 'PriorityClass',
      metadata: { name: priorityClass },
      value: 1000,
    },
    {
      apiVersion: 'v1',
      kind: 'ResourceQuota',
      metadata: { name: 'e2e-limited', namespace: sandboxes },
      spec: {
        hard: { pods: '0' },
        scopeSelector: {
          matchExpressions: [
            { scopeName: 'PriorityClass', operator: 'In', values: [priorityClass] },
          ],
        },
      },
    },
    {
      apiVersion: 'v1',
      kind: 'LimitRange',
      metadata: { name: 'e2e-range', namespace: sandboxes },
      spec: { limits: [{ type: 'Container', max: { memory: '8Gi' } }] },
    },
    {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingWebhookConfiguration',
      metadata: { name: webhookName },
      webhooks: [
        {
          name: webhookName,
          admissionReviewVersions: ['v1'],
          sideEffects: 'None',
          timeoutSeconds: 1,
          failurePolicy: 'Fail',
          clientConfig: { service: { namespace: tools, name: 'not-there' } },
          rules: [podsCreated],
          objectSelector: { matchLabels: { [causeLabel]: 'webhook' } },
          ...inNamespace,
        },
      ],
    },
    {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingAdmissionPolicy',
      metadata: { name: policyName },
      spec: {
        failurePolicy: 'Fail',
        matchConstraints: {
          resourceRules: [podsCreated],
          objectSelector: { matchLabels: { [causeLabel]: 'policy' } },
          ...inNamespace,
        },
        validations: [{ expression: 'false', message: 'internal words of the platform' }],
      },
    },
    {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingAdmissionPolicyBinding',
      metadata: { name: policyName },
      spec: { policyName, validationActions: ['Deny'] },
    },
  );
}

export async function unrestrictNamespace(): Promise<void> {
  await kubectl(
    `--namespace ${sandboxes} delete resourcequota/e2e-limited limitrange/e2e-range --ignore-not-found`,
  );
  await kubectl(`delete priorityclass ${priorityClass} --ignore-not-found`);
  await kubectl(`delete validatingwebhookconfiguration ${webhookName} --ignore-not-found`);
  await kubectl(
    `delete validatingadmissionpolicybinding,validatingadmissionpolicy ${policyName} --ignore-not-found`,
  );
}

export interface Cause {
  readonly name: string;
  readonly code: string;
  /** Code where the runtime does not report the cause. */
  readonly otherCode?: string;
  /** Matches the message of the start task. */
  readonly says: RegExp;
  readonly container?: object;
  readonly pod?: object;
  readonly labels?: Readonly<Record<string, string>>;
  readonly storage?: object;
  /** The `startDeadline` of the template: the time until waiting is known not to help. */
  readonly startDeadline?: string;
}

// Enough for the kubelet of a busy machine to try the pull of an image.
const briefly = '45s';
const memory = (limit: string) => ({
  resources: { requests: { cpu: '10m', memory: '32Mi' }, limits: { memory: limit } },
});

/** Faults of templates and clusters, each with the code that a start ends with. */
export const causes: readonly Cause[] = [
  {
    name: 'an image from a registry that does not answer',
    code: 'ImagePullFailed',
    says: /localhost:1\/none:1/,
    container: { image: 'localhost:1/none:1' },
    startDeadline: briefly,
  },
  {
    name: 'an image that may not be pulled',
    code: 'ImagePullFailed',
    says: /localhost\/none:1/,
    container: { image: 'localhost/none:1', imagePullPolicy: 'Never' },
  },
  {
    name: 'a Secret that does not exist',
    code: 'ContainerConfigError',
    says: /Secret/,
    container: {
      env: [{ name: 'LLM_API_KEY', valueFrom: { secretKeyRef: { name: 'none', key: 'key' } } }],
    },
  },
  {
    name: 'a command that does not exist',
    code: 'ContainerStartFailed',
    says: /agent/,
    container: { command: ['/none'] },
  },
  {
    name: 'an agent that ends again and again',
    code: 'CrashLoop',
    says: /exit code 7/,
    container: { command: ['/bin/sh', '-c', 'exit 7'] },
  },
  {
    name: 'an agent that wants more memory than its limit',
    code: 'OutOfMemory',
    // containerd loses the event of an OOM kill at times (containerd issues 8180 and 8893).
    otherCode: 'CrashLoop',
    says: /memory/,
    container: {
      command: [
        '/usr/local/bin/node',
        '--eval',
        'const all = []; for (;;) all.push(Buffer.alloc(8 * 1024 * 1024, 1));',
      ],
      ...memory('128Mi'),
    },
  },
  {
    name: 'a node that does not exist',
    code: 'Unschedulable',
    says: /[Nn]ode/,
    pod: { nodeSelector: { 'e2e/none': 'none' } },
    startDeadline: briefly,
  },
  {
    name: 'a storage class that does not exist',
    code: 'VolumeNotBound',
    says: /none-such/,
    storage: { storageClassName: 'none-such' },
    startDeadline: briefly,
  },
  {
    name: 'a resource quota that allows no pod',
    code: 'ResourceQuotaTooSmall',
    says: /e2e-limited.*pods/,
    pod: { priorityClassName: priorityClass },
    startDeadline: briefly,
  },
  {
    name: 'a limit range that it exceeds',
    code: 'LimitRangeViolated',
    says: /memory/,
    container: memory('16Gi'),
    startDeadline: briefly,
  },
  {
    name: 'a pod that the pod security standard refuses',
    code: 'PodSecurityViolated',
    says: /restricted/,
    container: { securityContext: { capabilities: { drop: ['ALL'], add: ['NET_ADMIN'] } } },
    startDeadline: briefly,
  },
  {
    name: 'an admission policy that refuses it',
    code: 'AdmissionDenied',
    says: /admission policy/,
    labels: { [causeLabel]: 'policy' },
    startDeadline: briefly,
  },
  {
    name: 'an admission webhook that does not answer',
    code: 'AdmissionUnavailable',
    says: /admission webhook/,
    labels: { [causeLabel]: 'webhook' },
    startDeadline: briefly,
  },
  {
    name: 'a priority class that does not exist',
    code: 'ReferenceNotFound',
    says: /none-such/,
    pod: { priorityClassName: 'none-such' },
    startDeadline: briefly,
  },
  {
    name: 'a pod that is none',
    code: 'TemplateInvalid',
    says: /volumeMounts/,
    container: { volumeMounts: [{ name: 'none', mountPath: '/none' }] },
    startDeadline: briefly,
  },
];

/** The default template with one fault. */
export const templateOf = (name: string, image: string, cause: Cause): object => ({
  apiVersion: 'conversation-operator.dev/v1alpha1',
  kind: 'SandboxTemplate',
  metadata: { name, namespace: sandboxes },
  spec: {
    podTemplate: {
      metadata: { labels: cause.labels ?? {} },
      spec: {
        securityContext: { runAsUser: 10001, fsGroup: 10001 },
        ...cause.pod,
        containers: [
          {
            name: 'agent',
            image,
            imagePullPolicy: 'IfNotPresent',
            ...memory('1Gi'),
            ...cause.container,
          },
        ],
      },
    },
    storage: { size: '1Gi', ...cause.storage },
    startDeadline: cause.startDeadline ?? '5m',
  },
});
