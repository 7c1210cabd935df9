import { z } from 'zod';
import { confirmationPolicy, toolNames } from './agent-settings.ts';
import {
  ageColumn,
  resourceOf,
  type CustomObject,
  type CustomResourceDefinition,
} from './group.ts';
import { pausedType } from './paused-condition.ts';
import {
  conversationStatusSchema,
  maxTitleLength,
  type ConversationStatus,
  type StartStatus,
} from './conversation-status.ts';
import { immutable, listMap, objectName, ownerName, validations } from './schema.ts';

export const gitProviders = [
  'github',
  'gitlab',
  'bitbucket',
  'forgejo',
  'azure_devops',
  'bitbucket_data_center',
] as const;

/** UTF-8 bytes; also the limit that one text of a message has in characters. */
export const maxMessageBytes = 256 * 1024;
/**
 * Maximum messages of a conversation: those that wait for the agent, and some that the agent has
 * received.
 */
export const maxMessages = 40;

const contentSchema = z
  .object({
    type: z.enum(['text', 'image']).meta({ description: 'Kind of the part: text or image.' }),
    text: z
      .string()
      .max(maxMessageBytes)
      .optional()
      .meta({ description: 'Text of the part; required for the type text.' }),
    imageUrls: z
      .array(z.string().max(maxMessageBytes))
      .max(20)
      .optional()
      .meta({ description: 'URLs of the images, also data URLs; required for the type image.' }),
  })
  .meta(
    validations(
      {
        rule: "self.type != 'text' || (has(self.text) && size(self.text) > 0)",
        message: 'text is required for type text',
        fieldPath: '.text',
      },
      {
        rule: "self.type != 'image' || (has(self.imageUrls) && size(self.imageUrls) > 0)",
        message: 'imageUrls is required for type image',
        fieldPath: '.imageUrls',
      },
    ),
  );

const messageSchema = z.object({
  role: z
    .enum(['user', 'system', 'assistant'])
    .default('user')
    .meta({ description: 'Role in which the agent reads the message.' }),
  content: z
    .array(contentSchema)
    .min(1)
    .max(64)
    .meta({ description: 'Parts of the message, in order.' }),
  run: z.boolean().default(true).meta({
    description:
      'True: the agent starts a run with the message. False: the agent only stores the message.',
  }),
});

const laterMessageSchema = messageSchema
  .extend({
    number: z.int().min(1).meta({
      description: 'Position of the message in the order of delivery. A number is used once.',
    }),
    id: z.string().min(1).max(64).meta({
      description: 'Identifier that the client chose; a message with the same id is a repetition.',
    }),
  })
  .meta({ description: 'A message that follows the first one.' });

export const conversationSpecSchema = z
  .object({
    owner: ownerName().meta({
      description: 'Owner of the conversation. Other owners do not see the conversation over REST.',
    }),
    title: z
      .string()
      .max(maxTitleLength)
      .optional()
      .meta({ description: 'Title of the conversation. Absent: the title that the agent gives.' }),
    initialMessage: messageSchema.optional().meta({
      description: 'First message. Absent: the conversation is idle until it receives one.',
    }),
    messages: z
      .array(laterMessageSchema)
      .max(maxMessages)
      .optional()
      .meta({
        ...listMap('number'),
        description:
          'Further messages. The operator delivers each of them once, in the order of their numbers, while the sandbox is RUNNING.',
      }),
    repository: z
      .object({
        name: z
          .string()
          .max(255)
          .regex(/^[A-Za-z0-9_.-]+(\/[A-Za-z0-9_.-]+)+$/)
          .meta({ description: 'Path of the repository on its git host, owner/name.' }),
        branch: z.string().min(1).max(255).optional().meta({
          description: 'Branch or tag to check out. Absent: the default branch of the repository.',
        }),
        provider: z.enum(gitProviders).optional().meta({
          description: 'Git host of the repository. Absent: the first host that the gateway has.',
        }),
      })
      .optional()
      .meta({
        description:
          'Repository that the operator clones into the sandbox before the agent starts.',
      }),
    sandboxName: objectName().optional().meta({
      description:
        'Name of a sandbox of the same owner to join. Absent: the operator creates a sandbox for the conversation.',
    }),
    templateName: objectName().default('default').meta({
      description:
        'Name of the SandboxTemplate from which the operator creates the sandbox of the conversation.',
    }),
    agent: z
      .object({
        type: z.string().max(64).optional().meta({
          description: 'Type of the agent, as clients name it; the operator stores it only.',
        }),
        model: z
          .string()
          .max(256)
          .optional()
          .meta({ description: 'Name of the model. Absent: the model of the template.' }),
        systemMessageSuffix: z
          .string()
          .max(16_384)
          .optional()
          .meta({ description: 'Text that the agent appends to its system message.' }),
        tools: toolNames().optional().meta({
          description: 'Names of the tools that the agent may use. Absent: those of the template.',
        }),
        confirmationPolicy: confirmationPolicy().optional(),
      })
      .optional()
      .meta({ description: 'Settings of the agent that differ from the template.' }),
    parent: objectName()
      .optional()
      .meta({ description: 'Name of the conversation from which this one was started.' }),
    trigger: z
      .string()
      .max(64)
      .optional()
      .meta({ description: 'Origin of the conversation, for example gui or resolver.' }),
    prNumbers: z
      .array(z.int().min(1))
      .max(100)
      .optional()
      .meta({ description: 'Numbers of the pull requests that the conversation is about.' }),
    public: z.boolean().optional().meta({
      description:
        'True: a client has marked the conversation as shared. The field grants no access.',
    }),
    tags: z
      .record(z.string().max(64), z.string().max(256))
      .optional()
      .meta({ description: 'Labels that clients set, by name.' }),
    ttlSecondsAfterFinished: z.int().min(0).max(2_147_483_647).optional().meta({
      description:
        "Seconds for which the conversation is kept once it is over; then it is deleted with its own sandbox, whose volume goes by the template's storage.retain. A conversation is over while its condition Finished is True: its run has ended and no message waits for the agent, or its start has failed, or its sandbox is gone. The seconds count from the transition of that condition, or from the last activity, resume or pause where one of these is later. The operator announces the deletion by an Event and the condition Expiring. Absent: retention of the SandboxTemplate decides.",
    }),
  })
  .meta(
    validations(
      ...immutable({
        required: ['owner', 'templateName'],
        optional: [
          'initialMessage',
          'repository',
          'sandboxName',
          'agent',
          'parent',
          'trigger',
          'prNumbers',
        ],
      }),
    ),
  );

export type ConversationSpec = z.output<typeof conversationSpecSchema>;
export type Message = NonNullable<ConversationSpec['initialMessage']>;
export type LaterMessage = z.output<typeof laterMessageSchema>;
export type Conversation = CustomObject<ConversationSpec, ConversationStatus>;

export const conversationDefinition: CustomResourceDefinition = {
  kind: 'Conversation',
  plural: 'conversations',
  singular: 'conversation',
  shortNames: ['conv'],
  description: 'A task for a software agent, with its start and its progress.',
  spec: conversationSpecSchema,
  status: conversationStatusSchema,
  printerColumns: [
    {
      name: 'Title',
      type: 'string',
      jsonPath: '.status.shortTitle',
      description: 'Beginning of the title.',
    },
    {
      name: 'Sandbox',
      type: 'string',
      jsonPath: '.status.sandboxStatus',
      description: 'STARTING, RUNNING, PAUSED, ERROR or MISSING.',
    },
    {
      name: 'Execution',
      type: 'string',
      jsonPath: '.status.executionStatus',
      description: "Status of the agent's run.",
    },
    {
      name: 'Start',
      type: 'string',
      jsonPath: '.status.start.status',
      description: 'Current status of the start.',
    },
    {
      name: 'Repository',
      type: 'string',
      jsonPath: '.spec.repository.name',
      description: 'Repository of the conversation.',
    },
    {
      name: 'Owner',
      type: 'string',
      jsonPath: '.spec.owner',
      description: 'Owner of the conversation.',
    },
    {
      name: 'Sandbox-Name',
      type: 'string',
      jsonPath: '.status.sandboxName',
      description: 'Name of the sandbox of the conversation.',
      priority: 1,
    },
    {
      name: 'Reason',
      type: 'string',
      jsonPath: '.status.sandboxStatusReason',
      description: 'Reason of the phase of the sandbox.',
      priority: 1,
    },
    ageColumn,
  ],
  selectableFields: ['.spec.owner', '.status.sandboxStatus', '.status.sandboxName'],
};

export const conversations = resourceOf<Conversation>(conversationDefinition);

/** Current status of the start; WORKING for a conversation that no controller has seen yet. */
export const startStatusOf = ({
  status,
}: {
  readonly status?: ConversationStatus | undefined;
}): StartStatus => status?.start?.status ?? 'WORKING';

export const isStartOver = (status: StartStatus): boolean =>
  status === 'READY' || status === 'ERROR';

export const ConversationCondition = {
  /** The start is READY and the sandbox is RUNNING: the agent accepts messages. */
  ready: 'Ready',
  /** Nothing more happens in the conversation until a person acts. */
  finished: 'Finished',
  /** The sandbox is paused. */
  paused: pausedType,
  /** The operator is going to delete the conversation. Present from the announcement on. */
  expiring: 'Expiring',
} as const;

/** As much of a conversation, stored or cached, as says which messages wait for the agent. */
export interface ConversationMessages<
  M extends Pick<LaterMessage, 'number'> = Pick<LaterMessage, 'number'>,
> {
  readonly spec: { readonly messages?: readonly M[] | undefined };
  readonly status?: ConversationStatus | undefined;
}

/** Messages that the agent has not received yet, in order. */
export function undeliveredMessages<M extends Pick<LaterMessage, 'number'>>({
  spec,
  status,
}: ConversationMessages<M>): readonly M[] {
  const lastDelivered = status?.messages?.lastDelivered ?? 0;
  return (spec.messages ?? [])
    .filter(({ number }) => number > lastDelivered)
    .sort((one, other) => one.number - other.number);
}

/** Reasons of the condition Finished. */
export const FinishedReason = {
  finished: 'Finished',
  error: 'Error',
  stuck: 'Stuck',
  startFailed: 'StartFailed',
  sandboxGone: 'SandboxGone',
} as const;
export type FinishedReason = (typeof FinishedReason)[keyof typeof FinishedReason];

/**
 * Why nothing more happens in a conversation until a person acts; undefined: something still may.
 */
export function finishedReasonOf(conversation: ConversationMessages): FinishedReason | undefined {
  const { sandboxStatus, executionStatus, messages } = conversation.status ?? {};
  const start = startStatusOf(conversation);
  if (start === 'ERROR') return FinishedReason.startFailed;
  if (start !== 'READY') return undefined;
  if (sandboxStatus === 'MISSING') return FinishedReason.sandboxGone;
  if (undeliveredMessages(conversation).length > 0 || messages?.runPending === true)
    return undefined;
  switch (executionStatus) {
    case 'finished':
      return FinishedReason.finished;
    case 'error':
      return FinishedReason.error;
    case 'stuck':
      return FinishedReason.stuck;
    case 'idle':
    case 'running':
    case 'paused':
    case 'waiting_for_confirmation':
    case undefined:
      return undefined;
  }
}
