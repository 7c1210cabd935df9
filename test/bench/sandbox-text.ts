/** A Sandbox as an API server sends it, with everything that a running one has, managedFields too. */
export function sandboxText(index: number, resourceVersion: number): string {
  const name = `sandbox-${index}`;
  const uid = `3f2b8c1e-0000-4000-8000-${String(index).padStart(12, '0')}`;
  const time = '2026-03-01T12:00:00.000Z';
  const condition = (type: string, reason: string) => ({
    type,
    status: 'True',
    reason,
    message: `${reason} since ${time}.`,
    lastTransitionTime: time,
    observedGeneration: 1,
  });
  return JSON.stringify({
    apiVersion: 'conversation-operator.dev/v1alpha1',
    kind: 'Sandbox',
    metadata: {
      name,
      namespace: 'agents',
      uid,
      resourceVersion: String(resourceVersion),
      generation: 1,
      creationTimestamp: '2026-03-01T12:00:00Z',
      labels: { 'app.kubernetes.io/managed-by': 'conversation-operator' },
      ownerReferences: [
        {
          apiVersion: 'conversation-operator.dev/v1alpha1',
          kind: 'Conversation',
          name: uid.replaceAll('-', ''),
          uid: `c${uid.slice(1)}`,
          controller: false,
          blockOwnerDeletion: false,
        },
      ],
      managedFields: [
        {
          manager: 'conversation-operator',
          operation: 'Update',
          apiVersion: 'conversation-operator.dev/v1alpha1',
          time,
          fieldsType: 'FieldsV1',
          fieldsV1: { 'f:status': { 'f:phase': {}, 'f:conditions': {}, 'f:podIP': {}, 'f:podName': {} } },
          subresource: 'status',
        },
      ],
    },
    spec: { owner: `user-${index % 1000}`, templateName: 'default', replicas: 1 },
    status: {
      observedGeneration: 1,
      phase: 'RUNNING',
      reason: 'Running',
      message: 'The agent has answered.',
      replicas: 1,
      selector: `conversation-operator.dev/sandbox=${name}`,
      podName: name,
      podUID: `p${uid.slice(1)}`,
      podIP: `10.244.${(index >> 8) % 256}.${index % 256}`,
      containerID: `containerd://${uid}`,
      agentPort: 8000,
      masterKeyId: 'a1b2c3d4',
      startingSince: time,
      activeSince: time,
      conditions: [condition('Admitted', 'Admitted'), condition('AgentReady', 'AgentReady'), condition('Ready', 'Running')],
    },
  });
}
