import { persistentVolumeClaims, type PersistentVolumeClaim } from '../../resources/core.ts';
import { apiVersionOf, ownerReferenceTo, type NewObject } from '../../resources/object.ts';
import { sandboxLabels, type Sandbox } from '../../resources/sandbox.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';

/** The claim of a sandbox's workspace. One that is to be retained has no owner, so that no garbage collector takes it. */
export function buildClaim(sandbox: Sandbox, template: SandboxTemplate): NewObject<PersistentVolumeClaim> {
  const { size, storageClassName, retain } = template.spec.storage;
  return {
    apiVersion: apiVersionOf(persistentVolumeClaims),
    kind: persistentVolumeClaims.kind,
    metadata: {
      name: sandbox.metadata.name,
      namespace: sandbox.metadata.namespace,
      labels: sandboxLabels(sandbox.metadata.name),
      ...(retain ? {} : { ownerReferences: [ownerReferenceTo(sandbox, { controller: true })] }),
    },
    spec: {
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: size } },
      ...(storageClassName === undefined ? {} : { storageClassName }),
    },
  };
}
