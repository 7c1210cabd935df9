import {
  persistentVolumeClaims,
  type PersistentVolumeClaim,
} from '@conversation-operator/kube/core';
import { apiVersionOf, ownerReferenceTo, type NewObject } from '@conversation-operator/kube/object';
import { ownerAnnotation, sandboxLabels, type Sandbox } from '../../resources/sandbox.ts';
import { madeForReferenceOf } from '../../resources/sandbox-makers.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';

/** Label of a claim that stays when its sandbox is deleted; the value is always "true". */
export const retainedLabel = 'conversation-operator.dev/retained';
/** Annotation of a claim: the conversation that its sandbox was made for. */
export const conversationAnnotation = 'conversation-operator.dev/conversation';

/**
 * The claim of a sandbox's workspace. A claim that is to be retained has no owner reference, so
 * that no garbage collector deletes it; its annotations name its owner and its conversation.
 */
export function buildClaim(
  sandbox: Sandbox,
  template: SandboxTemplate,
): NewObject<PersistentVolumeClaim> {
  const { size, storageClassName, retain } = template.spec.storage;
  const { name, namespace } = sandbox.metadata;
  const conversation = madeForReferenceOf(sandbox)?.name;
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
