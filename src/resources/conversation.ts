import { z } from 'zod';
import { confirmationPolicy, toolNames } from './agent-settings.ts';
import { conditionsSchema } from './conditions.ts';
import { ageColumn, resourceOf, type CustomObject, type CustomResourceDefinition } from './group.ts';
import { pausedType } from './paused-condition.ts';
import { immutable, listMap, objectName, observedGeneration, ownerName, timestamp, validations } from './schema.ts';

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
/** Maximum characters of the title in a table of kubectl. */
export const maxShortTitleLength = 40;
/** Maximum messages of a conversation: those that wait for the agent, and some that the agent has received. */
export const maxMessages = 40;

const contentSchema = z
  .object({
    type: z.enum(['text', 'image']).meta({ description: 'Kind of the part: text or image.' }),
    text: z.string().max(maxMessageBytes).optional().meta({ description: 'Text of the part; required for the type text.' }),
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
  role: z.enum(['user', 'system', 'assistant']).default('user').meta({ description: 'Role in which the agent reads the message.' }),
  content: z.array(contentSchema).min(1).max(64).meta({ description: 'Parts of the message, in order.' }),
  run: z
    .boolean()
    .default(true)
    .meta({ description: 'True: the agent starts a run with the message. False: the agent only stores the message.' }),
});

const laterMessageSchema = messageSchema
  .extend({
    number: z.int().min(1).meta({ description: 'Position of the message in the order of delivery. A number is used once.' }),
    id: z.string().min(1).max(64).meta({ description: 'Identifier that the client chose; a message with the same id is a repetition.' }),
  })
  .meta({ description: 'A message that follows the first one.' });

export const conversationSpecSchema = z
  .object({
    owner: ownerName().meta({ description: 'Owner of the conversation. Other owners do not see the conversation over REST.' }),
    title: z
      .string()
      .max(maxTitleLength)
      .optional()
      .meta({ description: 'Title of the conversation. Absent: the title that the agent gives.' }),
    initialMessage: messageSchema
      .optional()
      .meta({ description: 'First message. Absent: the conversation is idle until it receives one.' }),
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
        branch: z
          .string()
          .min(1)
          .max(255)
          .optional()
          .meta({ description: 'Branch or tag to check out. Absent: the default branch of the repository.' }),
        provider: z
          .enum(gitProviders)
          .optional()
          .meta({ description: 'Git host of the repository. Absent: the first host that the gateway has.' }),
      })
      .optional()
      .meta({ description: 'Repository that the operator clones into the sandbox before the agent starts.' }),
    sandboxName: objectName()
      .optional()
      .meta({ description: 'Name of a sandbox of the same owner to join. Absent: the operator creates a sandbox for the conversation.' }),
    templateName: objectName()
      .default('default')
      .meta({ description: 'Name of the SandboxTemplate from which the operator creates the sandbox of the conversation.' }),
    agent: z
      .object({
        type: z.string().max(64).optional().meta({ description: 'Type of the agent, as clients name it; the operator stores it only.' }),
        model: z.string().max(256).optional().meta({ description: 'Name of the model. Absent: the model of the template.' }),
        systemMessageSuffix: z.string().max(16_384).optional().meta({ description: 'Text that the agent appends to its system message.' }),
        tools: toolNames().optional().meta({ description: 'Names of the tools that the agent may use. Absent: those of the template.' }),
        confirmationPolicy: confirmationPolicy().optional(),
      })
      .optional()
      .meta({ description: 'Settings of the agent that differ from the template.' }),
    parent: objectName().optional().meta({ description: 'Name of the conversation from which this one was started.' }),
    trigger: z.string().max(64).optional().meta({ description: 'Origin of the conversation, for example gui or resolver.' }),
    prNumbers: z
      .array(z.int().min(1))
      .max(100)
      .optional()
      .meta({ description: 'Numbers of the pull requests that the conversation is about.' }),
    public: z
      .boolean()
      .optional()
      .meta({ description: 'True: a client has marked the conversation as shared. The field grants no access.' }),
    tags: z.record(z.string().max(64), z.string().max(256)).optional().meta({ description: 'Labels that clients set, by name.' }),
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
  status: z.enum(startStatuses).meta({ description: 'Status that the start entered.' }),
  time: timestamp().meta({ description: 'Time at which the start entered the status.' }),
  detail: z.string().max(2048).optional().meta({ description: 'Explanation for people.' }),
});

export const startStepNames = ['clone', 'setup'] as const;
export const startStepStates = ['running', 'done', 'failed'] as const;

const startStepSchema = z.object({
  name: z.enum(startStepNames).meta({ description: "clone, or setup: the repository's own set-up script." }),
  state: z.enum(startStepStates).meta({ description: 'running, done or failed.' }),
  startedAt: timestamp().meta({ description: 'Time at which the step began.' }),
  updatedAt: timestamp().meta({ description: 'Time at which the operator last saw a change of the step.' }),
  endedAt: timestamp().optional().meta({ description: 'Time at which the step ended. Absent while the step runs.' }),
  exitCode: z.int().min(0).max(255).optional().meta({ description: 'Exit code of the command. Absent while the step runs.' }),
  output: z
    .string()
    .max(4096)
    .optional()
    .meta({ description: 'Last part of the output, without control characters and without text that resembles a credential.' }),
});

export const conversationStatusSchema = z.object({
  observedGeneration: observedGeneration(),
  start: z
    .object({
      status: z.enum(startStatuses).meta({ description: 'Current status of the start.' }),
      transitions: z.array(transitionSchema).max(8).meta({ description: 'All statuses that the start has entered, oldest first.' }),
      errorCode: z
        .string()
        .max(64)
        .optional()
        .meta({ description: 'Stable code of the error or, before that, of what delays the start; docs/reasons.md lists all codes.' }),
      error: z.string().max(2048).optional().meta({ description: 'Explanation of the code for the owner.' }),
      deadline: timestamp().optional().meta({ description: 'Time at which the current step fails.' }),
      steps: z
        .array(startStepSchema)
        .max(8)
        .optional()
        .meta({ description: "Commands that the operator ran in the sandbox: the clone, and the repository's own set-up script." }),
    })
    .optional()
    .meta({ description: 'Start of the conversation. Written by the operator; absent until the operator has seen the conversation.' }),
  sandboxName: objectName()
    .optional()
    .meta({ description: 'Name of the sandbox of the conversation. Absent until the operator has chosen it.' }),
  sandboxUID: z
    .string()
    .max(64)
    .optional()
    .meta({ description: 'UID of the sandbox; a sandbox recreated under the same name has a different UID.' }),
  sandboxStatus: z.enum(sandboxStatuses).optional().meta({ description: 'Phase of the sandbox; MISSING once the sandbox is gone.' }),
  sandboxStatusReason: z
    .string()
    .max(64)
    .optional()
    .meta({ description: 'Reason of the phase of the sandbox; docs/reasons.md lists all reasons.' }),
  executionStatus: z
    .enum(executionStatuses)
    .optional()
    .meta({ description: "Status of the agent's run. Absent until the agent has the conversation." }),
  executionDetail: z.string().max(2048).optional().meta({ description: 'Explanation of executionStatus for people.' }),
  agentEpoch: z
    .int()
    .min(0)
    .optional()
    .meta({ description: 'Value of agentEpoch of the sandbox when the operator last read executionStatus.' }),
  interruption: z
    .object({
      reason: z.string().max(64).meta({ description: 'Cause of the interruption; docs/reasons.md lists all causes.' }),
      time: timestamp().meta({ description: 'Time at which the operator saw the interruption.' }),
      lastResumeTime: timestamp()
        .optional()
        .meta({ description: 'Time at which the agent last accepted a resume of the run. Absent until then.' }),
      containerLosses: z
        .int()
        .min(0)
        .optional()
        .meta({ description: 'Number of consecutive container losses, each of them soon after a resume of the run.' }),
      resumeAttempts: z
        .int()
        .min(0)
        .optional()
        .meta({ description: 'Number of resumes that the operator has requested from the agent since the interruption.' }),
      resumeRejections: z.int().min(0).optional().meta({ description: 'Number of those resumes that the agent has rejected.' }),
      abandonedReason: z
        .enum(['LostTooOften', 'Refused', 'Stalled'])
        .optional()
        .meta({ description: 'Reason why the operator no longer resumes the run. Absent while the operator still does.' }),
    })
    .optional()
    .meta({ description: 'Interruption of the current run. Absent when the run was not interrupted or is over.' }),
  messages: z
    .object({
      lastDelivered: z
        .int()
        .min(0)
        .meta({ description: 'Number of the last message in spec.messages that the agent has received; 0: none of them.' }),
      lastDeliveredTime: timestamp().optional().meta({ description: 'Time at which the agent last received a message that starts a run.' }),
      runPending: z
        .boolean()
        .optional()
        .meta({ description: 'True: the agent has stored the last message and has not started a run for it yet.' }),
      previousExecutionStatus: z
        .enum(['paused', 'error'])
        .optional()
        .meta({ description: 'Status of the run before the message, which the agent reports until it starts the run.' }),
      inFlight: z
        .object({
          number: z.int().min(1).meta({ description: 'Number of the message in spec.messages.' }),
          attempt: z.int().min(1).meta({ description: 'Number of the delivery attempt, from 1.' }),
          time: timestamp().meta({ description: 'Time of the attempt.' }),
          container: z.string().max(256).optional().meta({ description: 'ID of the container to which the message is sent.' }),
          after: z
            .object({
              id: z.string().max(128).meta({ description: 'ID of the event.' }),
              timestamp: z.string().max(64).meta({ description: "Timestamp of the event on the agent's clock." }),
            })
            .optional()
            .meta({ description: 'Last message event that the agent had before the attempt.' }),
        })
        .optional()
        .meta({
          description:
            'Message whose delivery is under way. The operator stores it before it sends the message, so that a new operator can find out whether the agent received it.',
        }),
    })
    .optional()
    .meta({ description: 'Delivery of messages to the agent. Written by the operator; absent until the agent has the conversation.' }),
  title: z
    .string()
    .max(maxTitleLength)
    .optional()
    .meta({ description: "Title of the conversation: spec.title, else the agent's own title." }),
  shortTitle: z.string().max(maxShortTitleLength).optional().meta({
    description:
      'Beginning of the title, or of the first message where there is no title, for tables of kubectl. Written by the operator together with other fields; empty without a text.',
  }),
  lastActivityTime: timestamp()
    .optional()
    .meta({ description: 'Time of the last event of the agent. Absent until the agent has the conversation.' }),
  metrics: z
    .object({
      accumulatedCost: z.string().max(32).optional().meta({ description: 'Cost in US dollars, as a decimal number.' }),
      promptTokens: z.int().min(0).optional().meta({ description: 'Number of tokens in prompts.' }),
      completionTokens: z.int().min(0).optional().meta({ description: 'Number of tokens in completions.' }),
    })
    .optional()
    .meta({ description: 'Usage that the agent reports. Absent until the agent has reported some.' }),
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
  description: 'A task for a software agent, with its start and its progress.',
  spec: conversationSpecSchema,
  status: conversationStatusSchema,
  printerColumns: [
    { name: 'Title', type: 'string', jsonPath: '.status.shortTitle', description: 'Beginning of the title.' },
    { name: 'Sandbox', type: 'string', jsonPath: '.status.sandboxStatus', description: 'STARTING, RUNNING, PAUSED, ERROR or MISSING.' },
    { name: 'Execution', type: 'string', jsonPath: '.status.executionStatus', description: "Status of the agent's run." },
    { name: 'Start', type: 'string', jsonPath: '.status.start.status', description: 'Current status of the start.' },
    { name: 'Repository', type: 'string', jsonPath: '.spec.repository.name', description: 'Repository of the conversation.' },
    { name: 'Owner', type: 'string', jsonPath: '.spec.owner', description: 'Owner of the conversation.' },
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
export const startStatusOf = ({ status }: { readonly status?: ConversationStatus | undefined }): StartStatus =>
  status?.start?.status ?? 'WORKING';

export const isStartOver = (status: StartStatus): boolean => status === 'READY' || status === 'ERROR';

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
export interface ConversationMessages<M extends Pick<LaterMessage, 'number'> = Pick<LaterMessage, 'number'>> {
  readonly spec: { readonly messages?: readonly M[] | undefined };
  readonly status?: ConversationStatus | undefined;
}

/** Messages that the agent has not received yet, in order. */
export function undeliveredMessages<M extends Pick<LaterMessage, 'number'>>({ spec, status }: ConversationMessages<M>): readonly M[] {
  const lastDelivered = status?.messages?.lastDelivered ?? 0;
  return (spec.messages ?? []).filter(({ number }) => number > lastDelivered).sort((one, other) => one.number - other.number);
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
