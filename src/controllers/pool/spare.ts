import type { Clock } from '@conversation-operator/kube/clock';
import { apiVersionOf, ownerReferenceTo, type NewObject } from '@conversation-operator/kube/object';
import { newUuid } from '@conversation-operator/kube/uuid';
import { ownSandboxName } from '../../resources/ids.ts';
import {
  poolLabel,
  sandboxes,
  templateVersionAnnotation,
  type Sandbox,
} from '../../resources/sandbox.ts';
import type { SandboxPool } from '../../resources/sandbox-pool.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';

/** Identifies a version of a template's spec. */
export const templateVersionOf = ({ metadata }: SandboxTemplate): string =>
  `${metadata.uid}/${metadata.generation}`;

/** A new spare of a pool. */
export function newSpare(
  pool: SandboxPool,
  template: SandboxTemplate,
  { clock, random }: { readonly clock: Clock; readonly random: () => number },
): NewObject<Sandbox> {
  const { namespace, name } = pool.metadata;
  const bytes = (count: number) =>
    Buffer.from(Array.from({ length: count }, () => Math.floor(random() * 256)));
  return {
    apiVersion: apiVersionOf(sandboxes),
    kind: sandboxes.kind,
    metadata: {
      name: ownSandboxName(newUuid(clock.now(), bytes)),
      namespace,
      labels: { [poolLabel]: name },
      annotations: { [templateVersionAnnotation]: templateVersionOf(template) },
      ownerReferences: [ownerReferenceTo(pool, { controller: true })],
    },
    spec: { owner: '', poolName: name, templateName: template.metadata.name, replicas: 1 },
  };
}
