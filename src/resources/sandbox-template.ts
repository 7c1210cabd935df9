import { z } from 'zod';
import type { V1PodTemplateSpec } from '@kubernetes/client-node';
import {
  agentKinds,
  confirmationPolicy,
  credentialName,
  modelBaseUrl,
  modelPatterns,
  toolNames,
} from './agent-settings.ts';
import { acpSettingsSchema } from './acp-settings.ts';
import { gitSettingsSchema } from './git-settings.ts';
import { modelSettingsSchema } from './model-settings.ts';
import { conditionsSchema } from './conditions.ts';
import {
  column,
  resourceOf,
  wideColumn,
  type CustomObject,
  type CustomResourceDefinition,
} from './group.ts';
import type { Wire } from '@conversation-operator/kube/object';
import { described, observedGeneration, optional, text, validations } from './schema.ts';

/** A Go duration in hours, minutes and seconds: 90s, 20m, 1h30m. */
export const duration = () =>
  z
    .string()
    .regex(/^([0-9]+h)?([0-9]+m)?([0-9]+s)?$/)
    .min(2)
    .max(20);

/** Maximum duration: 100 years, so that the resulting times are valid dates. */
const maxDurationMs = 100 * 365.25 * 24 * 3_600_000;

/** The milliseconds of a `duration`, at most `maxDurationMs`. */
export function durationMs(text: string): number {
  const [, hours, minutes, seconds] = /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(text) ?? [];
  const total = Number(hours ?? 0) * 3600 + Number(minutes ?? 0) * 60 + Number(seconds ?? 0);
  return Math.min(total * 1000, maxDurationMs);
}

/** The `startDeadline` for a template that sets none, or that does not exist. */
export const defaultStartDeadline = '5m';

/** The `archive.maxBytes` for a template that sets none, or that does not exist: 256 MiB. */
export const defaultArchiveMaxBytes = 256 * 2 ** 20;

const maxArchiveBytes = 2 ** 40;

/** CEL rules instead of patterns, because caches drop stored templates that violate a pattern. */
const agentRules = [
  {
    rule: '!has(self.credential) || has(self.baseUrl) || has(self.allowedModels)',
    message:
      'credential needs baseUrl, or allowedModels: else the name of a model says where the key goes',
    fieldPath: '.credential',
  },
  {
    rule: "!has(self.credential) || has(self.baseUrl) || !has(self.allowedModels) || self.allowedModels.all(pattern, !pattern.contains('*') || pattern.matches('^[^*/]+/'))",
    message:
      'without baseUrl each pattern must name the provider, like openai/*: else the name of a model says where the key goes',
    fieldPath: '.allowedModels',
  },
  {
    rule: "!has(self.model) || (self.model.matches('^[A-Za-z0-9][A-Za-z0-9._:@+/-]*$') && !self.model.contains('//') && !self.model.contains('..'))",
    message: 'model must be a name like openai/gpt-5, without a URL and white space',
    fieldPath: '.model',
  },
  {
    rule: "has(self.acp) == (has(self.kind) && self.kind == 'acp')",
    message: 'acp must be present with kind acp, and absent with every other kind',
    fieldPath: '.acp',
  },
];

const archiveRulesSchema = z.object({
  enabled: described(
    z.boolean().default(true),
    'Whether the operator archives the events of conversations, where it has an archive. False: what is archived already is kept.',
  ),
  retention: optional(
    duration(),
    "Time for which the archive of a conversation is kept after the last event, or a shorter one of the owner's quota. The conversation stays. Absent: as long as the conversation.",
  ),
  maxBytes: described(
    z.int().min(1).max(maxArchiveBytes).default(defaultArchiveMaxBytes),
    'Maximum size in bytes of the archive of one conversation, as stored. Events beyond it are not archived.',
  ),
});

export type ArchiveRules = Readonly<z.output<typeof archiveRulesSchema>>;

export const sandboxTemplateSpecSchema = z.object({
  displayName: optional(text(100), 'Name of the template for people.'),
  description: optional(text(1000), 'Purpose of the template, for people.'),
  podTemplate: z
    .custom<Wire<V1PodTemplateSpec>>(
      (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
    )
    .meta({
      type: 'object',
      description:
        'A pod template, as in a Deployment. The container named agent, or the first one, runs the agent; the operator adds its volume, port, probes and keys.',
      'x-kubernetes-preserve-unknown-fields': true,
    }),
  agent: z
    .object({
      kind: optional(
        z.enum(agentKinds),
        'Protocol of the agent. Absent: openhands. A sandbox keeps the kind of its first pod.',
      ),
      acp: optional(
        acpSettingsSchema,
        'Agent behind the bridge of the reference agent. Present exactly when kind is acp.',
      ),
      port: optional(
        z.int().min(1).max(65_535),
        'Port on which the agent listens; by default the port of its kind, 8000. A pod keeps the port that it was made with.',
      ),
      workingDir: described(
        z.string().startsWith('/').max(255).default('/workspace'),
        "Folder of the sandbox's volume, in which the agent works.",
      ),
      model: optional(text(256), 'Model of the conversations that name none.'),
      stuckAfter: optional(
        duration(),
        'Time after which the operator stops a run that reports nothing, and marks its conversation as stuck. Longer than any tool runs and than any answer of the model takes. Absent: never.',
      ),
      baseUrl: optional(
        modelBaseUrl(),
        "URL of the model's API. Absent: the address that the name of the model implies.",
      ),
      credential: optional(
        credentialName(),
        'Name of the file in AGENT_CREDENTIALS_DIR that holds the API key of the model; never the key itself.',
      ),
      allowedModels: optional(
        modelPatterns(),
        'Patterns of the models that conversations may name beside the model of the template; * matches any characters. Absent: with a credential the models of the same provider, else all.',
      ),
      tools: optional(
        toolNames(),
        "Names of the tools for conversations that name none. Absent: the agent's own choice.",
      ),
      confirmationPolicy: confirmationPolicy().optional(),
      maxIterations: optional(
        z.int().min(1).max(10_000),
        "Maximum steps of a run. Absent: the agent's own maximum.",
      ),
    })
    .meta({ ...validations(...agentRules), description: 'Settings of the agent in the sandbox.' })
    .prefault({}),
  git: optional(
    gitSettingsSchema,
    'What sandboxes may read from and push to git hosts through the gateway. Absent: the defaults of git.push.',
  ),
  models: optional(
    modelSettingsSchema,
    'Way of agents to their model through the gateway. Absent: the defaults of its fields.',
  ),
  storage: described(
    z.object({
      size: described(
        z
          .string()
          .regex(/^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$/)
          .max(20)
          .default('10Gi'),
        'Size of the volume, as a Kubernetes quantity.',
      ),
      storageClassName: optional(
        text(253),
        'Storage class of the volume. Absent: the default class of the cluster.',
      ),
      retain: described(
        z.boolean().default(false),
        'True: the volume is kept when its sandbox is deleted.',
      ),
    }),
    'Volume of the sandbox.',
  ).prefault({}),
  idleTimeout: optional(
    duration(),
    'Time without a run after which the operator pauses the sandbox. Absent: never.',
  ),
  startDeadline: described(
    duration().default(defaultStartDeadline),
    'Time within which the sandbox becomes RUNNING for the first time, or fails. Time in which the sandbox waits at a scheduling gate, for room in a ResourceQuota or for a node that an autoscaler adds does not count.',
  ),
  maxActiveTime: optional(
    duration(),
    'Time after which the operator pauses a running sandbox. Absent: never.',
  ),
  retention: optional(
    z.object({
      finished: optional(
        duration(),
        'Time for which a conversation is kept once its run is over, unless its ttlSecondsAfterFinished says otherwise. Absent: for ever.',
      ),
      failed: optional(
        duration(),
        'Time for which a conversation is kept whose start has failed, unless its ttlSecondsAfterFinished says otherwise, and a sandbox in ERROR with its volume. Absent: for ever.',
      ),
      paused: optional(
        duration(),
        'Time for which a paused sandbox and its volume are kept. The records of its conversations stay, as MISSING. A sandbox that a quota has paused in the middle of its work is kept. Absent: for ever.',
      ),
      records: optional(
        duration(),
        'Time for which a conversation is kept whose sandbox is gone, from when the conversation was over. Absent: for ever.',
      ),
    }),
    'Times after which the operator deletes unused conversations and sandboxes. An Event announces each deletion in advance: by a tenth of the time, at least a minute and at most an hour. A change of these times applies to existing objects at once.',
  ),
  archive: optional(
    archiveRulesSchema,
    "Archive of the conversations' events, which clients read also while the sandbox is paused or gone. Absent: the defaults of its fields.",
  ),
});

export const sandboxTemplateStatusSchema = z.object({
  observedGeneration: observedGeneration(),
  conditions: conditionsSchema,
});

export type SandboxTemplateSpec = z.output<typeof sandboxTemplateSpecSchema>;
export type SandboxTemplate = CustomObject<
  SandboxTemplateSpec,
  z.output<typeof sandboxTemplateStatusSchema>
>;

export const defaultTemplateName = 'default';

export const sandboxTemplateDefinition: CustomResourceDefinition = {
  kind: 'SandboxTemplate',
  plural: 'sandboxtemplates',
  shortNames: ['sbt'],
  description:
    'Template of sandboxes: image, resources, storage and time limits. REST calls it a sandbox spec.',
  spec: sandboxTemplateSpecSchema,
  status: sandboxTemplateStatusSchema,
  printerColumns: [
    column('Display-Name', '.spec.displayName', 'Name of the template for people.'),
    column(
      'Image',
      '.spec.podTemplate.spec.containers[0].image',
      'The image of the first container.',
    ),
    column(
      'Valid',
      '.status.conditions[?(@.type=="Valid")].status',
      'Whether the operator can create pods from the template.',
    ),
    wideColumn('Idle-Timeout', '.spec.idleTimeout', 'Idle time before a pause.'),
  ],
  selectableFields: [],
};

export const sandboxTemplates = resourceOf<SandboxTemplate>(sandboxTemplateDefinition);

/** The container that runs the agent: the one with the name `agent`, or else the first. */
export function agentContainerOf(template: Pick<SandboxTemplate, 'spec'>) {
  const containers = template.spec.podTemplate.spec?.containers ?? [];
  return containers.find(({ name }) => name === 'agent') ?? containers[0];
}

/** The rules of the archive, with defaults for absent fields or an unknown template. */
export const archiveRulesOf = (template: Pick<SandboxTemplate, 'spec'> | undefined): ArchiveRules =>
  template?.spec.archive ?? { enabled: true, maxBytes: defaultArchiveMaxBytes };
