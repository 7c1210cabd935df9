import type { Clock } from '@conversation-operator/base/clock';
import { apiVersionOf, type NewObject } from '@conversation-operator/kube/object';
import { newUuid } from '@conversation-operator/base/uuid';
import { ownSandboxName } from '../../resources/ids.ts';
import {
  poolLabel,
  poolLabelValue,
  sandboxes,
  templateVersionAnnotation,
  type Sandbox,
} from '../../resources/sandbox.ts';
import type { SandboxPool } from '../../resources/sandbox-pool.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';

/** Identifies a version of a template's spec. */
export const templateVersionOf = ({ metadata }: SandboxTemplate): string =>
  `${metadata.uid}/${metadata.generation}`;

/**
 * A new spare of a pool. No owner reference names the pool: a garbage collector that has decided
 * before a claim would delete the sandbox of a start.
 */
export function newSpare(
  { metadata: { namespace, name } }: SandboxPool,
  template: SandboxTemplate,
  { clock, random }: { readonly clock: Clock; readonly random: () => number },
): NewObject<Sandbox> {
  const bytes = (count: number) =>
    Buffer.from(Array.from({ length: count }, () => Math.floor(random() * 256)));
  return {
    apiVersion: apiVersionOf(sandboxes),
    kind: sandboxes.kind,
    metadata: {
      name: ownSandboxName(newUuid(clock.now(), bytes)),
      namespace,
      labels: { [poolLabel]: poolLabelValue(name) },
      annotations: { [templateVersionAnnotation]: templateVersionOf(template) },
    },
    spec: { owner: '', poolName: name, templateName: template.metadata.name, replicas: 1 },
  };
}
