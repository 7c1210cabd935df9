const apiVersion = 'conversation-operator.dev/v1alpha1';
const createdAt = '2026-03-01T12:00:00Z';
const runningSince = '2026-03-01T12:00:04.376Z';

/** The keys in the order in which an API server writes them. */
const fields = (...names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [`f:${name}`, {}]));
const ownFields = (...names: readonly string[]) => ({ '.': {}, ...fields(...names) });
const conditionFields = ownFields(
  'lastTransitionTime',
  'message',
  'observedGeneration',
  'reason',
  'status',
  'type',
);

const condition = (
  type: string,
  status: boolean,
  reason: string,
  message: string,
  lastTransitionTime = runningSince,
) => ({
  lastTransitionTime,
  message,
  observedGeneration: 1,
  reason,
  status: status ? 'True' : 'False',
  type,
});

/** The server's notes about the writers of fields: nearly the half of every event. */
const managedFields = (ownerUid: string) => [
  {
    apiVersion,
    fieldsType: 'FieldsV1',
    fieldsV1: {
      'f:metadata': { 'f:ownerReferences': { '.': {}, [`k:{"uid":"${ownerUid}"}`]: {} } },
      'f:spec': ownFields('owner', 'replicas', 'templateName'),
    },
    manager: 'conversation-operator',
    operation: 'Update',
    time: createdAt,
  },
  {
    apiVersion,
    fieldsType: 'FieldsV1',
    fieldsV1: {
      'f:status': {
        '.': {},
        ...fields('activeSinceTime', 'agentPort'),
        'f:conditions': {
          '.': {},
          ...Object.fromEntries(
            ['Admitted', 'AgentReady', 'Ready'].map((type) => [
              `k:{"type":"${type}"}`,
              conditionFields,
            ]),
          ),
        },
        ...fields(
          'containerID',
          'lastContainerID',
          'masterKeyId',
          'message',
          'observedGeneration',
          'phase',
          'podIP',
          'podName',
        ),
        ...fields('podUID', 'reason', 'replicas', 'selector'),
      },
    },
    manager: 'conversation-operator',
    operation: 'Update',
    subresource: 'status',
    time: createdAt,
  },
];

/**
 * A Sandbox of a conversation, field by field as kube-apiserver 1.34 sends one that our controllers
 * have written, `managedFields` too. Its agent answers in the first, third, … hundred thousand
 * versions and does not in the others.
 */
export function sandboxText(index: number, resourceVersion: number): string {
  const ready = Math.floor(resourceVersion / 100_000) % 2 === 0;
  const since = new Date(Date.UTC(2026, 2, 1) + resourceVersion).toISOString();
  const reason = ready ? 'Running' : 'WaitingForAgent';
  const message = ready ? 'The agent answers.' : 'The agent does not answer.';
  const id = `01a1fcd17ec57272bf19${String(index).padStart(12, '0')}`;
  const name = `sbx-${id}`;
  const uuid = (first: string) =>
    `${first}26dcb8-c9b7-46bf-af75-${String(index).padStart(12, '0')}`;
  const containerID = `containerd://${id}${id}`;
  return JSON.stringify({
    apiVersion,
    kind: 'Sandbox',
    metadata: {
      creationTimestamp: createdAt,
      generation: 1,
      managedFields: managedFields(uuid('c0')),
      name,
      namespace: 'agents',
      ownerReferences: [
        { apiVersion, controller: true, kind: 'Conversation', name: id, uid: uuid('c0') },
      ],
      resourceVersion: String(resourceVersion),
      uid: uuid('a3'),
    },
    spec: { owner: `user-${index % 1000}`, replicas: 1, templateName: 'default' },
    status: {
      activeSinceTime: runningSince,
      agentPort: 8000,
      conditions: [
        condition('Admitted', true, 'Admitted', 'No quota limits the sandbox.'),
        condition('AgentReady', true, 'Connected', 'The agent has answered.'),
        condition('Ready', ready, reason, message, since),
      ],
      containerID,
      lastContainerID: containerID,
      masterKeyId: '116bc2957062',
      message,
      observedGeneration: 1,
      phase: ready ? 'RUNNING' : 'STARTING',
      podIP: `10.244.${(index >> 8) % 256}.${index % 256}`,
      podName: name,
      podUID: uuid('b7'),
      reason,
      replicas: 1,
      selector: `conversation-operator.dev/sandbox=${name}`,
    },
  });
}
