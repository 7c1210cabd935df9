import { ApiError, TransportError } from '@conversation-operator/kube/errors';
import {
  createErrorOf,
  retryAfterMs,
  type CreatedKind,
} from '../../../../src/controllers/sandbox/create-error.ts';
import type { FailurePolicy, FailureCode } from '../../../../src/controllers/sandbox/failure.ts';

type Body = ConstructorParameters<typeof ApiError>[1];

const forbidden = (why: string, what = 'pods'): ApiError =>
  new ApiError(403, {
    reason: 'Forbidden',
    code: 403,
    message: `${what} "sbx-1" is forbidden: ${why}`,
  });
const answer = (
  status: number,
  reason: string,
  message: string,
  details?: Body['details'],
): ApiError =>
  new ApiError(status, {
    reason,
    code: status,
    message,
    ...(details === undefined ? {} : { details }),
  });

/** Errors in the words of a kube-apiserver 1.34 and of policy engines. */
const createErrors: [string, CreatedKind, ApiError, FailureCode, FailurePolicy, string][] = [
  [
    'a quota that is full',
    'pod',
    forbidden(
      'exceeded quota: team-a, requested: requests.cpu=2,requests.memory=4Gi, used: requests.cpu=9,requests.memory=30Gi, limited: requests.cpu=10,requests.memory=32Gi',
    ),
    'ResourceQuotaExceeded',
    'waiting',
    "The namespace's resource quota team-a has no room for the pod: requests.cpu, requests.memory. The sandbox waits until others of the namespace end, or an administrator raises the quota.",
  ],
  [
    'a quota of pods',
    'pod',
    forbidden('exceeded quota: objects, requested: pods=1, used: pods=5, limited: pods=5'),
    'ResourceQuotaExceeded',
    'waiting',
    'objects has no room for the pod: pods.',
  ],
  [
    'a quota of storage',
    'volume',
    forbidden(
      'exceeded quota: disks, requested: fast.storageclass.storage.k8s.io/requests.storage=10Gi,persistentvolumeclaims=1, used: fast.storageclass.storage.k8s.io/requests.storage=95Gi,persistentvolumeclaims=9, limited: fast.storageclass.storage.k8s.io/requests.storage=100Gi,persistentvolumeclaims=9',
      'persistentvolumeclaims',
    ),
    'ResourceQuotaExceeded',
    'waiting',
    'disks has no room for the volume: fast.storageclass.storage.k8s.io/requests.storage, persistentvolumeclaims.',
  ],
  [
    'a quota that has just been made',
    'pod',
    forbidden('status unknown for quota: team-a, resources: pods'),
    'ResourceQuotaExceeded',
    'waiting',
    'has not computed yet',
  ],
  [
    'a quota that is smaller than the pod',
    'pod',
    forbidden(
      'exceeded quota: team-a, requested: requests.cpu=1500m,requests.memory=4Gi,pods=1, used: requests.cpu=0,requests.memory=0,pods=0, limited: requests.cpu=1,requests.memory=4096Mi,pods=5',
    ),
    'ResourceQuotaTooSmall',
    'transient',
    "The pod needs more than the namespace's resource quota team-a allows at all: requests.cpu.",
  ],
  [
    'a priority class without a quota',
    'pod',
    answer(
      403,
      'Forbidden',
      'pods "sbx-1" is forbidden: insufficient quota to match these scopes: [{PriorityClass In [high]}]',
    ),
    'ResourceQuotaTooSmall',
    'transient',
    'No resource quota',
  ],
  [
    'a quota that could not be computed in time',
    'pod',
    answer(500, 'InternalError', 'Internal error occurred: resource quota evaluation timed out'),
    'ResourceQuotaExceeded',
    'waiting',
    '',
  ],
  [
    'a quota that wants limits',
    'pod',
    forbidden(
      'failed quota: team-a: must specify limits.cpu for: agent; limits.memory for: agent,sidecar; requests.cpu for: agent',
    ),
    'ResourcesNotSpecified',
    'transient',
    "The namespace's resource quota team-a wants the pod to state: limits.cpu, limits.memory, requests.cpu.",
  ],
  [
    'a limit range, from above',
    'pod',
    forbidden(
      '[maximum cpu usage per Container is 1, but limit is 2, maximum memory usage per Container is 1Gi, but limit is 4Gi]',
    ),
    'LimitRangeViolated',
    'transient',
    "The pod is outside of the namespace's limit range: cpu.",
  ],
  [
    'a limit range, from below',
    'volume',
    forbidden(
      'minimum storage usage per PersistentVolumeClaim is 20Gi, but request is 10Gi',
      'persistentvolumeclaims',
    ),
    'LimitRangeViolated',
    'transient',
    'storage',
  ],
  [
    'a limit range, by its ratio',
    'pod',
    forbidden(
      'memory max limit to request ratio per Container is 4, but provided ratio is 16.000000',
    ),
    'LimitRangeViolated',
    'transient',
    'memory',
  ],
  [
    'a pod security standard',
    'pod',
    forbidden(
      'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "agent" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "agent" must set securityContext.capabilities.drop=["ALL"]), seccompProfile (pod or container "agent" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")',
    ),
    'PodSecurityViolated',
    'transient',
    "The namespace's pod security standard restricted refuses the pod.",
  ],
  [
    "OpenShift's security context constraints",
    'pod',
    forbidden(
      'unable to validate against any security context constraint: [provider "anyuid": Forbidden: not usable by user or serviceaccount, provider restricted-v2: .spec.securityContext.fsGroup: Invalid value: []int64{10001}: 10001 is not an allowed group]',
    ),
    'PodSecurityViolated',
    'transient',
    'security context constraint',
  ],
  [
    'a webhook that says why',
    'pod',
    answer(
      400,
      '',
      'admission webhook "validate.kyverno.svc-fail" denied the request: resource Pod/default/sbx-1 was blocked due to the following policies\n\nrequire-labels: team label is required, see https://wiki.internal/labels',
    ),
    'AdmissionDenied',
    'transient',
    'An admission webhook of the cluster refuses the pod.',
  ],
  [
    'a webhook that does not say why',
    'pod',
    answer(400, '', 'admission webhook "deny.example.com" denied the request without explanation'),
    'AdmissionDenied',
    'transient',
    'webhook',
  ],
  [
    'Gatekeeper',
    'volume',
    answer(
      403,
      'Forbidden',
      'admission webhook "validation.gatekeeper.sh" denied the request: [storage] class fast is not allowed',
    ),
    'AdmissionDenied',
    'transient',
    'refuses the volume',
  ],
  [
    'a webhook that calls it invalid',
    'pod',
    answer(
      422,
      'Invalid',
      'admission webhook "vpod.example.com" denied the request: spec.containers: Invalid value: image is not signed',
    ),
    'AdmissionDenied',
    'transient',
    'webhook',
  ],
  [
    'a policy in the API server',
    'pod',
    answer(
      422,
      'Invalid',
      "pods \"sbx-1\" is forbidden: ValidatingAdmissionPolicy 'images' with binding 'images-here' denied request: failed expression: object.spec.containers.all(c, c.image.startsWith('registry.internal/'))",
    ),
    'AdmissionDenied',
    'transient',
    'An admission policy of the cluster refuses the pod.',
  ],
  [
    'a webhook that no server serves',
    'pod',
    answer(
      500,
      'InternalError',
      'Internal error occurred: failed calling webhook "validate.kyverno.svc-fail": failed to call webhook: Post "https://kyverno-svc.kyverno.svc:443/validate/fail?timeout=10s": no endpoints available for service "kyverno-svc"',
    ),
    'AdmissionUnavailable',
    'transient',
    'does not answer',
  ],
  [
    'a webhook that hangs',
    'pod',
    answer(
      500,
      'InternalError',
      'Internal error occurred: failed calling webhook "sidecar.istio.io": failed to call webhook: Post "https://istiod.istio-system.svc:443/inject?timeout=10s": context deadline exceeded',
    ),
    'AdmissionUnavailable',
    'transient',
    '',
  ],
  [
    'a role that is missing',
    'pod',
    answer(
      403,
      'Forbidden',
      'pods is forbidden: User "system:serviceaccount:agents:conversation-operator" cannot create resource "pods" in API group "" in the namespace "team-a"',
    ),
    'PermissionDenied',
    'transient',
    'The operator has no right to create the pod.',
  ],
  [
    'a namespace that is going',
    'volume',
    forbidden(
      'unable to create new content in namespace team-a because it is being terminated',
      'persistentvolumeclaims',
    ),
    'NamespaceTerminating',
    'transient',
    'The namespace is being deleted.',
  ],
  [
    'a service account that does not exist',
    'pod',
    forbidden('error looking up service account team-a/agents: serviceaccount "agents" not found'),
    'ReferenceNotFound',
    'transient',
    'a service account that does not exist: agents.',
  ],
  [
    'a priority class that does not exist',
    'pod',
    forbidden('no PriorityClass with name low was found'),
    'ReferenceNotFound',
    'transient',
    'a priority class that does not exist: low.',
  ],
  [
    'a runtime class that does not exist',
    'pod',
    forbidden('pod rejected: RuntimeClass "gvisor" not found'),
    'ReferenceNotFound',
    'transient',
    'a runtime class that does not exist: gvisor.',
  ],
  [
    'whatever else is forbidden',
    'pod',
    forbidden('the reason is 42 at 10.0.0.1'),
    'CreationForbidden',
    'transient',
    'The cluster refuses the pod.',
  ],
  [
    'a template that makes no valid pod',
    'pod',
    answer(
      422,
      'Invalid',
      'Pod "sbx-1" is invalid: [spec.containers[0].image: Required value, spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1]',
      {
        causes: [
          { field: 'spec.containers[0].image', message: 'Required value' },
          {
            field: 'spec.containers[0].resources.requests',
            message: 'Invalid value: "2": must be less than or equal to cpu limit of 1',
          },
        ],
      },
    ),
    'TemplateInvalid',
    'template',
    'The template makes no valid pod: spec.containers[0].image, spec.containers[0].resources.requests.',
  ],
  [
    'a template that is no pod at all',
    'pod',
    answer(
      400,
      'BadRequest',
      'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string',
    ),
    'TemplateInvalid',
    'template',
    'The template makes no valid pod.',
  ],
  [
    'a size of nothing',
    'volume',
    answer(
      422,
      'Invalid',
      'PersistentVolumeClaim "sbx-1" is invalid: spec.resources[storage]: Invalid value: "0": must be greater than zero',
      { causes: [{ field: 'spec.resources[storage]', message: 'must be greater than zero' }] },
    ),
    'TemplateInvalid',
    'template',
    'no valid volume: spec.resources[storage].',
  ],
];

it.each(createErrors)('%s', (_sentence, what, error, code, policy, words) => {
  const createError = createErrorOf(error, what);
  expect(createError).toMatchObject({ code, policy, serverMessage: error.message });
  expect(createError?.message).toContain(words);
});

it.each(createErrors)('%s: clients see no text of the cluster', (_sentence, what, error) => {
  const { message = '' } = createErrorOf(error, what) ?? {};
  expect(message).toMatch(/^[A-Z][^\n]*\.$/);
  expect(message).not.toMatch(
    /https?:|\.svc|serviceaccount:|\d+\.\d+\.\d+\.\d+|used:|limited:|Invalid value|expression|internal/,
  );
});

it('names that could be anything are left out', () => {
  expect(
    createErrorOf(
      forbidden(
        'exceeded quota: <img src=x>, requested: a b=1,pods=1, used: pods=5, limited: pods=5',
      ),
      'pod',
    )?.message,
  ).toContain("The namespace's resource quota has no room for the pod: pods. ");
});

it.each([
  [
    'something of the name that is there already',
    answer(409, 'AlreadyExists', 'pods "sbx-1" already exists'),
  ],
  [
    'a quota that was written at the same time',
    answer(
      409,
      'Conflict',
      'Operation cannot be fulfilled on resourcequotas "team-a": the object has been modified',
    ),
  ],
  [
    'a server that is busy',
    answer(429, 'TooManyRequests', 'the server is currently unable to handle the request'),
  ],
  ['a server that fails', answer(500, 'InternalError', 'etcdserver: request timed out')],
  ['a server that is not ready', answer(503, 'ServiceUnavailable', 'apiserver not ready')],
  ['a namespace that is gone', answer(404, 'NotFound', 'namespaces "team-a" not found')],
  ['no answer', new TransportError('connect ECONNREFUSED')],
  ['anything else', new TypeError('x')],
])('no createError is %s', (_sentence, error) => {
  expect(createErrorOf(error, 'pod')).toBeUndefined();
});

it('asks again soon at first, then less and less often, and always within 15 s', () => {
  expect([0, 2_000, 20_000, 60_000, 3_600_000].map(retryAfterMs)).toEqual([
    1_000, 1_000, 5_000, 15_000, 15_000,
  ]);
});

it.each([
  [
    'a quota of sandboxes',
    answer(
      403,
      'Forbidden',
      'sandboxes.conversation-operator.dev "sbx-1" is forbidden: exceeded quota: objects, requested: count/sandboxes.conversation-operator.dev=1, used: count/sandboxes.conversation-operator.dev=9, limited: count/sandboxes.conversation-operator.dev=9',
    ),
    'ResourceQuotaExceeded',
    "The namespace's resource quota objects has no room for the sandbox: count/sandboxes.conversation-operator.dev. The sandbox waits until others of the namespace end, or an administrator raises the quota.",
  ],
  [
    'a role without the right to it',
    answer(
      403,
      'Forbidden',
      'sandboxes.conversation-operator.dev "sbx-1" is forbidden: User "x" cannot patch resource "sandboxes" in API group "conversation-operator.dev" in the namespace "a"',
    ),
    'PermissionDenied',
    'The operator has no right to create the sandbox.',
  ],
  [
    'definitions of another version',
    answer(
      422,
      'Invalid',
      'Sandbox.conversation-operator.dev "sbx-1" is invalid: spec.region: Required value',
    ),
    'CreationForbidden',
    'The cluster refuses the sandbox.',
  ],
])('of a sandbox: %s', (_sentence, error, code, message) => {
  const policy = code === 'ResourceQuotaExceeded' ? 'waiting' : 'transient';
  expect(createErrorOf(error, 'sandbox')).toMatchObject({ code, message, policy });
});
