import { persistentVolumeClaims, type PersistentVolumeClaim } from '@conversation-operator/kube/core';
import { conversations } from '../../resources/conversation.ts';
import { apiVersionOf, ownerReferenceTo, type NewObject } from '@conversation-operator/kube/object';
import { ownerAnnotation, sandboxLabels, type Sandbox } from '../../resources/sandbox.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';

/** Of a claim that stays when its sandbox is deleted; the value is always "true". */
export const retainedLabel = 'conversation-operator.dev/retained';
/** Of a claim: the conversation that its sandbox was made for. */
export const conversationAnnotation = 'conversation-operator.dev/conversation';

/**
 * The claim of a sandbox's workspace. One that is to be retained has no owner, so that no garbage collector takes it; whose it
 * is, and which conversation's, stands in its annotations.
 */
export function buildClaim(sandbox: Sandbox, template: SandboxTemplate): NewObject<PersistentVolumeClaim> {
  const { size, storageClassName, retain } = template.spec.storage;
  const { name, namespace, ownerReferences } = sandbox.metadata;
  const conversation = ownerReferences?.find(({ kind, controller }) => kind === conversations.kind && controller === true)?.name;
  return {
    apiVersion: apiVersionOf(persistentVolumeClaims),
    kind: persistentVolumeClaims.kind,
    metadata: {
      name,
      namespace,
      labels: { ...sandboxLabels(name), ...(retain ? { [retainedLabel]: 'true' } : {}) },
      annotations: {
        [ownerAnnotation]: sandbox.spec.owner,
        ...(conversation === undefined ? {} : { [conversationAnnotation]: conversation }),
      },
      ...(retain ? {} : { ownerReferences: [ownerReferenceTo(sandbox, { controller: true })] }),
    },
    spec: {
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: size } },
      ...(storageClassName === undefined ? {} : { storageClassName }),
    },
  };
}
