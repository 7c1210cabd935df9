import { z } from 'zod';
import { confirmationPolicy, toolNames } from './agent-settings.ts';
import { conditionsSchema } from './conditions.ts';
import { ageColumn, resourceOf, type CustomObject, type CustomResourceDefinition } from './group.ts';
import { immutable, listMap, objectName, ownerName, timestamp, validations } from './schema.ts';

/** In the order in which a start passes them; ERROR can follow any but READY. SPEC: start task status. */
export const startStatuses = ['WORKING', 'WAITING_FOR_SANDBOX', 'PREPARING_REPOSITORY', 'SETTING_UP_SKILLS', 'READY', 'ERROR'] as const;
export type StartStatus = (typeof startStatuses)[number];

export const sandboxStatuses = ['STARTING', 'RUNNING', 'PAUSED', 'ERROR', 'MISSING'] as const;
export type SandboxStatus = (typeof sandboxStatuses)[number];

export const executionStatuses = ['idle', 'running', 'paused', 'waiting_for_confirmation', 'finished', 'error', 'stuck'] as const;
export type ExecutionStatus = (typeof executionStatuses)[number];

export const gitProviders = ['github', 'gitlab', 'bitbucket', 'forgejo', 'azure_devops', 'bitbucket_data_center'] as const;

/** UTF-8 bytes; also the limit that one text of a message has in characters. */
export const maxMessageBytes = 256 * 1024;
export const maxTitleLength = 200;
/** Messages that wait for their agent, and some that it has been told. */
export const maxMessages = 40;

const contentSchema = z
  .object({
    type: z.enum(['text', 'image']),
    text: z.string().max(maxMessageBytes).optional(),
    imageUrls: z.array(z.string().max(maxMessageBytes)).max(20).optional(),
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
  role: z.enum(['user', 'system', 'assistant']).default('user'),
  content: z.array(contentSchema).min(1).max(64),
  run: z.boolean().default(true).meta({ description: 'Whether the agent starts working at once, or only keeps the message.' }),
});

const laterMessageSchema = messageSchema
  .extend({
    number: z.int().min(1).meta({ description: 'Its place in the order in which the agent is told; never given twice.' }),
    id: z.string().min(1).max(64).meta({ description: 'Tells a message that is sent again from another one.' }),
  })
  .meta({ description: 'What the agent is told after the first message.' });

export const conversationSpecSchema = z
  .object({
    owner: ownerName().meta({ description: 'Whom the conversation belongs to. Only this owner sees it over REST.' }),
    title: z.string().max(maxTitleLength).optional().meta({ description: 'What it is called; by default what the agent calls it.' }),
    initialMessage: messageSchema
      .optional()
      .meta({ description: 'The first message. Without one the conversation is idle until it gets one.' }),
    messages: z
      .array(laterMessageSchema)
      .max(maxMessages)
      .optional()
      .meta({
        ...listMap('number'),
        description: 'Further messages: each is told to the agent once, in the order of their numbers, while the sandbox is RUNNING.',
      }),
    repository: z
      .object({
        name: z
          .string()
          .max(255)
          .regex(/^[A-Za-z0-9_.-]+(\/[A-Za-z0-9_.-]+)+$/)
          .meta({ description: 'owner/name.' }),
        branch: z
          .string()
          .min(1)
          .max(255)
          .optional()
          .meta({ description: 'A branch or tag; by default the one that the repository names.' }),
        provider: z.enum(gitProviders).optional().meta({ description: 'Which configured git host it is on; by default the first.' }),
      })
      .optional()
      .meta({ description: 'What the agent works on; cloned before it starts.' }),
    sandboxName: objectName()
      .optional()
      .meta({ description: 'A sandbox of the same owner to join. Without it the conversation gets its own.' }),
    templateName: objectName().default('default').meta({ description: 'The SandboxTemplate that its own sandbox is made from.' }),
    agent: z
      .object({
        type: z.string().max(64).optional(),
        model: z.string().max(256).optional(),
        systemMessageSuffix: z.string().max(16_384).optional(),
        tools: toolNames().optional().meta({ description: "What the agent may use; by default the template's choice." }),
        confirmationPolicy: confirmationPolicy().optional(),
      })
      .optional(),
    parent: objectName().optional().meta({ description: 'The conversation that this one was started from.' }),
    trigger: z.string().max(64).optional().meta({ description: 'What started it, for example gui or resolver.' }),
    prNumbers: z.array(z.int().min(1)).max(100).optional(),
    public: z.boolean().optional(),
    tags: z.record(z.string().max(64), z.string().max(256)).optional(),
    ttlSecondsAfterFinished: z.int().min(0).max(2_147_483_647).optional().meta({
      description:
        "Seconds for which the conversation is kept once it is over; then it is deleted with its own sandbox, whose volume goes by the template's storage.retain. A conversation is over while its condition Finished is True: its run has ended and no message waits for the agent, or its start has failed, or its sandbox is gone. The seconds count from the transition of that condition, or from the last activity, resume or pause where one of these is later. The operator announces the deletion by an Event and the condition Expiring. Absent: retention of the SandboxTemplate decides.",
    }),
  })
  .meta(
    validations(
      ...immutable({
        required: ['owner', 'templateName'],
        optional: ['initialMessage', 'repository', 'sandboxName', 'agent', 'parent', 'trigger', 'prNumbers'],
      }),
    ),
  );

const transitionSchema = z.object({
  status: z.enum(startStatuses),
  time: timestamp(),
  detail: z.string().max(2048).optional(),
});

export const startStepNames = ['clone', 'setup'] as const;
export const startStepStates = ['running', 'done', 'failed'] as const;

const startStepSchema = z.object({
  name: z.enum(startStepNames),
  state: z.enum(startStepStates),
  startedAt: timestamp(),
  updatedAt: timestamp(),
  endedAt: timestamp().optional(),
  exitCode: z.int().min(0).max(255).optional(),
  output: z
    .string()
    .max(4096)
    .optional()
    .meta({ description: 'The last of what it has printed, without control characters and what looks like a credential.' }),
});

export const conversationStatusSchema = z.object({
  observedGeneration: z.int().min(0).optional(),
  start: z
    .object({
      status: z.enum(startStatuses),
      transitions: z.array(transitionSchema).max(8).meta({ description: 'Every status the start has had, oldest first.' }),
      errorCode: z
        .string()
        .max(64)
        .optional()
        .meta({ description: 'Why it is in ERROR or, before that, what keeps it waiting: a stable code, see docs/reasons.md.' }),
      error: z.string().max(2048).optional().meta({ description: 'The same in words that are safe to show to the owner.' }),
      deadline: timestamp().optional().meta({ description: 'When the present step counts as failed.' }),
      steps: z
        .array(startStepSchema)
        .max(8)
        .optional()
        .meta({ description: "What was run in the sandbox for it: the clone, and the repository's own set-up script." }),
    })
    .optional(),
  sandboxName: objectName().optional(),
  sandboxUID: z
    .string()
    .max(64)
    .optional()
    .meta({ description: 'Which one of that name. One that is made again in its place is another.' }),
  sandboxStatus: z.enum(sandboxStatuses).optional(),
  sandboxStatusReason: z.string().max(64).optional(),
  executionStatus: z.enum(executionStatuses).optional(),
  executionDetail: z.string().max(2048).optional(),
  agentEpoch: z
    .int()
    .min(0)
    .optional()
    .meta({ description: "The sandbox's agentEpoch when executionStatus was seen: since then the agent has not been younger than that." }),
  interruption: z
    .object({
      reason: z.string().max(64),
      time: timestamp(),
      lastResumeTime: timestamp().optional().meta({ description: 'When the agent was last told to go on, and took it.' }),
      containerLosses: z
        .int()
        .min(0)
        .optional()
        .meta({ description: 'How often in a row it has lost its container, each time soon after it had gone on.' }),
      resumeAttempts: z.int().min(0).optional().meta({ description: 'How often the agent was told to go on, since it was cut.' }),
      resumeRejections: z.int().min(0).optional().meta({ description: 'How often the agent has refused that.' }),
      abandonedReason: z
        .enum(['LostTooOften', 'Refused', 'Stalled'])
        .optional()
        .meta({ description: 'Why it does not go on by itself any more.' }),
    })
    .optional()
    .meta({ description: 'Why a run was stopped half-way, until it is over.' }),
  messages: z
    .object({
      lastDelivered: z.int().min(0).meta({ description: 'Up to which number of spec.messages the agent has been told.' }),
      lastDeliveredTime: timestamp().optional().meta({ description: 'When it was last told something that makes it work.' }),
      runPending: z.boolean().optional().meta({ description: 'It has stored the last message, and has yet to begin to work on it.' }),
      previousExecutionStatus: z
        .enum(['paused', 'error'])
        .optional()
        .meta({ description: 'What the agent was when it stored that, and stays until it begins.' }),
      inFlight: z
        .object({
          number: z.int().min(1),
          attempt: z.int().min(1),
          time: timestamp(),
          container: z.string().max(256).optional(),
          after: z.object({ id: z.string().max(128), timestamp: z.string().max(64) }).optional(),
        })
        .optional()
        .meta({
          description:
            'The message that is on its way, and the last one that the agent had before: what is needed to know whether it came.',
        }),
    })
    .optional(),
  title: z.string().max(maxTitleLength).optional().meta({ description: "What it is called: spec.title, else the agent's own title." }),
  lastActivityTime: timestamp().optional(),
  metrics: z
    .object({
      accumulatedCost: z.string().max(32).optional().meta({ description: 'US dollars, decimal.' }),
      promptTokens: z.int().min(0).optional(),
      completionTokens: z.int().min(0).optional(),
    })
    .optional(),
  conditions: conditionsSchema,
});

export type ConversationSpec = z.output<typeof conversationSpecSchema>;
export type ConversationStatus = z.output<typeof conversationStatusSchema>;
export type StartStep = z.output<typeof startStepSchema>;
export type StartState = NonNullable<ConversationStatus['start']>;
export type Message = NonNullable<ConversationSpec['initialMessage']>;
export type LaterMessage = z.output<typeof laterMessageSchema>;
export type MessageState = NonNullable<ConversationStatus['messages']>;
export type Conversation = CustomObject<ConversationSpec, ConversationStatus>;

export const conversationDefinition: CustomResourceDefinition = {
  kind: 'Conversation',
  plural: 'conversations',
  singular: 'conversation',
  shortNames: ['conv'],
  description: 'A task for a software agent, its start and its progress.',
  spec: conversationSpecSchema,
  status: conversationStatusSchema,
  printerColumns: [
    { name: 'Sandbox', type: 'string', jsonPath: '.status.sandboxStatus', description: 'STARTING, RUNNING, PAUSED, ERROR or MISSING.' },
    { name: 'Execution', type: 'string', jsonPath: '.status.executionStatus', description: 'What the agent does.' },
    { name: 'Start', type: 'string', jsonPath: '.status.start.status', description: 'How far the start has come.' },
    { name: 'Repository', type: 'string', jsonPath: '.spec.repository.name', description: 'The repository worked on.' },
    { name: 'Owner', type: 'string', jsonPath: '.spec.owner', description: 'Whom it belongs to.' },
    { name: 'Sandbox-Name', type: 'string', jsonPath: '.status.sandboxName', description: 'The sandbox it runs in.', priority: 1 },
    {
      name: 'Reason',
      type: 'string',
      jsonPath: '.status.sandboxStatusReason',
      description: 'Why the sandbox is in its status.',
      priority: 1,
    },
    { name: 'Title', type: 'string', jsonPath: '.status.title', description: 'What it is called.', priority: 1 },
    ageColumn,
  ],
  selectableFields: ['.spec.owner', '.status.sandboxStatus', '.status.sandboxName'],
};

export const conversations = resourceOf<Conversation>(conversationDefinition);

/** Where the start stands; a conversation that no controller has seen yet is WORKING. */
export const startStatusOf = ({ status }: { readonly status?: ConversationStatus | undefined }): StartStatus =>
  status?.start?.status ?? 'WORKING';

export const isStartOver = (status: StartStatus): boolean => status === 'READY' || status === 'ERROR';

export const ConversationCondition = {
  /** Nothing more happens in the conversation until a person acts. Absent until that was so for the first time. */
  finished: 'Finished',
  /** The operator is going to delete the conversation. Present from the announcement on. */
  expiring: 'Expiring',
} as const;

/** As much of a conversation, stored or cached, as says which messages wait for the agent. */
export interface ConversationMessages<M extends Pick<LaterMessage, 'number'> = Pick<LaterMessage, 'number'>> {
  readonly spec: { readonly messages?: readonly M[] | undefined };
  readonly status?: ConversationStatus | undefined;
}

/** What the agent has not been told yet, in order. */
export function undeliveredMessages<M extends Pick<LaterMessage, 'number'>>({ spec, status }: ConversationMessages<M>): readonly M[] {
  const told = status?.messages?.lastDelivered ?? 0;
  return (spec.messages ?? []).filter(({ number }) => number > told).sort((one, other) => one.number - other.number);
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

/** Why nothing more happens in a conversation until a person acts; undefined: something still may. */
export function finishedReasonOf(conversation: ConversationMessages): FinishedReason | undefined {
  const { sandboxStatus, executionStatus, messages } = conversation.status ?? {};
  const start = startStatusOf(conversation);
  if (start === 'ERROR') return FinishedReason.startFailed;
  if (start !== 'READY') return undefined;
  if (sandboxStatus === 'MISSING') return FinishedReason.sandboxGone;
  if (undeliveredMessages(conversation).length > 0 || messages?.runPending === true) return undefined;
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
