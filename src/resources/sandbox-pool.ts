import { z } from 'zod';
import { conditionsSchema } from './conditions.ts';
import {
  column,
  resourceOf,
  scaleOfReplicas,
  wideColumn,
  type CustomObject,
  type CustomResourceDefinition,
} from './group.ts';
import { count, described, objectName, observedGeneration, optional, text } from './schema.ts';
import { duration } from './sandbox-template.ts';

/** Maximum warm sandboxes of one pool. */
export const maxPoolReplicas = 1_000;

export const sandboxPoolSpecSchema = z.object({
  templateName: described(
    objectName().default('default'),
    'Name of the SandboxTemplate from which the operator creates the warm sandboxes. A change replaces them gradually.',
  ),
  replicas: described(
    count().max(maxPoolReplicas).default(1),
    'Number of warm sandboxes to keep. 0 keeps none.',
  ),
  refill: described(
    z.object({
      maxPerMinute: described(
        z.int().min(1).max(6_000).default(60),
        'Maximum number of warm sandboxes that the operator creates in a minute, for new and for outdated ones together.',
      ),
      delay: described(
        duration().default('1s'),
        'Time between a claim and the creation of the warm sandbox that replaces the claimed one, whatever claims follow, so that consecutive starts have the nodes to themselves.',
      ),
    }),
    'Rate at which the operator replaces warm sandboxes that starts have claimed.',
  ).prefault({}),
});

export const PoolCondition = {
  /** As many warm sandboxes as the pool wants are ready for starts. */
  ready: 'Ready',
} as const;

export const PoolReason = {
  full: 'Full',
  refilling: 'Refilling',
  scaledToZero: 'ScaledToZero',
  waitingForRoom: 'WaitingForRoom',
  /** The cluster delays warm sandboxes, for example by a scheduling gate. */
  waiting: 'Waiting',
  spareFailed: 'SpareFailed',
  templateNotFound: 'TemplateNotFound',
  templateInvalid: 'TemplateInvalid',
  templateRetainsVolumes: 'TemplateRetainsVolumes',
} as const;

export const sandboxPoolStatusSchema = z.object({
  observedGeneration: observedGeneration(),
  replicas: optional(count(), 'Number of warm sandboxes, whether or not their agents have booted.'),
  readyReplicas: optional(count(), 'Number of warm sandboxes that a start may claim now.'),
  selector: optional(
    text(512),
    "Label selector of the pool's pods, for the scale subresource. Pods keep the label when a start claims them.",
  ),
  failures: optional(
    count(),
    'Number of consecutive warm sandboxes that have failed. The operator waits longer after each, up to 5 min.',
  ),
  conditions: conditionsSchema,
});

export type SandboxPoolSpec = z.output<typeof sandboxPoolSpecSchema>;
export type SandboxPoolState = z.output<typeof sandboxPoolStatusSchema>;
export type SandboxPool = CustomObject<SandboxPoolSpec, SandboxPoolState>;

export const sandboxPoolDefinition: CustomResourceDefinition = {
  kind: 'SandboxPool',
  plural: 'sandboxpools',
  shortNames: ['sbp'],
  description:
    'A number of warm sandboxes of one template whose agents have booted, so that a start need not wait for them.',
  spec: sandboxPoolSpecSchema,
  status: sandboxPoolStatusSchema,
  printerColumns: [
    column('Template', '.spec.templateName', 'SandboxTemplate of the warm sandboxes.'),
    column('Wanted', '.spec.replicas', 'Number of warm sandboxes to keep.', 'integer'),
    column(
      'Ready',
      '.status.readyReplicas',
      'Number of warm sandboxes that a start may claim.',
      'integer',
    ),
    column(
      'Reason',
      `.status.conditions[?(@.type=="${PoolCondition.ready}")].reason`,
      'Reason of the condition Ready.',
    ),
    wideColumn(
      'Message',
      `.status.conditions[?(@.type=="${PoolCondition.ready}")].message`,
      'Explanation of the condition Ready.',
    ),
  ],
  selectableFields: [],
  scale: scaleOfReplicas,
};

export const sandboxPools = resourceOf<SandboxPool>(sandboxPoolDefinition);
