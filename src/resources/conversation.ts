import { z } from 'zod';
import { confirmationPolicy, toolNames } from './agent-settings.ts';
import { approvalAnswerSchema, maxAnswers } from './approval.ts';
import {
  column,
  resourceOf,
  wideColumn,
  type CustomObject,
  type CustomResourceDefinition,
} from './group.ts';
import { sealedText, secretName } from './owner-settings.ts';
import { pausedType } from './conditions.ts';
import {
  conversationStatusSchema,
  maxTitleLength,
  type ConversationStatus,
  type StartStatus,
} from './conversation-status.ts';
import {
  count,
  described,
  countsHandovers,
  handedOver,
  handoverCount,
  handoverLock,
  immutable,
  listMap,
  objectName,
  optional,
  ownerName,
  text,
  validations,
} from './schema.ts';
import { gitProviders } from './git-providers.ts';
import { maxBudgetUsd } from './usage-counters.ts';

/** Maximum UTF-8 bytes of a message, and maximum characters of each text in it. */
export const maxMessageBytes = 256 * 1024;
/** Maximum messages in a conversation's spec: the undelivered ones and some delivered ones. */
export const maxMessages = 40;
/** Maximum secrets of one conversation, in addition to those of its owner. */
export const maxStartSecrets = 32;

const contentSchema = z
  .object({
    type: described(z.enum(['text', 'image']), 'Kind of the part: text or image.'),
    text: optional(text(maxMessageBytes), 'Text of the part; required for the type text.'),
    imageUrls: optional(
      z.array(text(maxMessageBytes)).max(20),
      'URLs of the images, also data URLs; required for the type image.',
    ),
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
  role: described(
    z.enum(['user', 'system', 'assistant']).default('user'),
    'Role in which the agent reads the message.',
  ),
  content: described(z.array(contentSchema).min(1).max(64), 'Parts of the message, in order.'),
  run: described(
    z.boolean().default(true),
    'True: the agent starts a run with the message. False: the agent only stores the message.',
  ),
});

const laterMessageSchema = described(
  messageSchema.extend({
    number: described(
      z.int().min(1),
      'Position of the message in the order of delivery. A number is used once.',
    ),
    id: described(
      z.string().min(1).max(64),
      'Identifier that the client chose; a message with the same id is a repetition.',
    ),
  }),
  'A message that follows the first one.',
);

export const conversationSpecSchema = z
  .object({
    owner: described(
      ownerName(),
      'Owner of the conversation. Other owners do not see the conversation over REST.',
    ),
    handover: handoverLock(),
    handovers: handoverCount('conversation'),
    title: optional(
      text(maxTitleLength),
      'Title of the conversation. Absent: the title that the agent gives.',
    ),
    initialMessage: optional(
      messageSchema,
      'First message. Absent: the conversation is idle until it receives one.',
    ),
    messages: z
      .array(laterMessageSchema)
      .max(maxMessages)
      .optional()
      .meta({
        ...listMap('number'),
        description:
          'Further messages. The operator delivers each of them once, in the order of their numbers, while the sandbox is RUNNING.',
      }),
    approvals: z
      .array(approvalAnswerSchema)
      .max(maxAnswers)
      .optional()
      .meta({
        ...listMap('id'),
        description:
          'Answers to questions of the agent. The operator gives the first valid answer to the agent once, and resumes a paused sandbox for it.',
      }),
    repository: optional(
      z.object({
        name: described(
          text(255).regex(/^[A-Za-z0-9_.-]+(\/[A-Za-z0-9_.-]+)+$/),
          'Path of the repository on its git host, owner/name.',
        ),
        branch: optional(
          z.string().min(1).max(255),
          'Branch or tag to check out. Absent: the default branch of the repository.',
        ),
        provider: optional(
          z.enum(gitProviders),
          'Git host of the repository. Absent: the first host that the gateway has.',
        ),
      }),
      'Repository that the operator clones into the sandbox before the agent starts.',
    ),
    secrets: optional(
      z
        .array(
          z.object({
            name: described(secretName(), 'Name of the secret, also of its environment variable.'),
            sealed: described(
              sealedText(),
              'Value, which the gateway has sealed for this conversation under a master key.',
            ),
          }),
        )
        .max(maxStartSecrets)
        .meta(listMap('name')),
      'Secrets for this conversation only. They take precedence over secrets of the owner with the same name.',
    ),
    sandboxName: optional(
      objectName(),
      'Name of a sandbox of the same owner to join. Absent: the operator creates a sandbox for the conversation.',
    ),
    templateName: described(
      objectName().default('default'),
      'Name of the SandboxTemplate from which the operator creates the sandbox of the conversation.',
    ),
    agent: optional(
      z.object({
        type: optional(
          text(64),
          'Type of the agent, as clients name it; the operator stores it only.',
        ),
        model: optional(text(256), 'Name of the model. Absent: the model of the template.'),
        systemMessageSuffix: optional(
          text(16_384),
          'Text that the agent appends to its system message.',
        ),
        tools: optional(
          toolNames(),
          'Names of the tools that the agent may use. Absent: those of the template.',
        ),
        confirmationPolicy: confirmationPolicy().optional(),
      }),
      'Settings of the agent that differ from the template.',
    ),
    budget: optional(
      z
        .object({
          amount: described(
            z.number().positive().max(maxBudgetUsd),
            'Maximum cost of the calls of models in this conversation. It may grow, and never falls.',
          ),
          currency: described(z.enum(['USD']).default('USD'), 'Unit of the amount: US dollars.'),
        })
        .meta(
          validations({
            rule: 'self.amount >= oldSelf.amount',
            message: 'amount may only grow',
            fieldPath: '.amount',
          }),
        ),
      'Budget of this conversation alone, besides those of quotas. Absent: none.',
    ),
    parent: optional(objectName(), 'Name of the conversation from which this one was started.'),
    trigger: optional(text(64), 'Origin of the conversation, for example gui or resolver.'),
    prNumbers: optional(
      z.array(z.int().min(1)).max(100),
      'Numbers of the pull requests that the conversation is about.',
    ),
    public: optional(
      z.boolean(),
      'True: a client has marked the conversation as shared. The field grants no access.',
    ),
    tags: optional(z.record(text(64), text(256)), 'Labels that clients set, by name.'),
    ttlSecondsAfterFinished: optional(
      count().max(2_147_483_647),
      "Seconds for which the conversation is kept once it is over; then it is deleted with its own sandbox, whose volume goes by the template's storage.retain. A conversation is over while its condition Finished is True: its run has ended and no message waits for the agent, or its start has failed, or its sandbox is gone. The seconds count from the transition of that condition, or from the last activity, resume or pause where one of these is later. The operator announces the deletion by an Event and the condition Expiring. Absent: retention of the SandboxTemplate decides.",
    ),
  })
  .meta(
    validations(
      ...handedOver(),
      countsHandovers(),
      {
        rule: 'self.owner != oldSelf.owner ? !has(self.secrets) : (has(self.secrets) == has(oldSelf.secrets) && (!has(self.secrets) || self.secrets == oldSelf.secrets))',
        message: 'secrets is immutable, and a handover removes it',
        fieldPath: '.secrets',
      },
      {
        rule: 'has(self.budget) == has(oldSelf.budget)',
        message: 'budget comes with the start, and stays',
        fieldPath: '.budget',
      },
      ...immutable({
        required: ['templateName'],
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
  shortNames: ['conv'],
  description: 'A task for a software agent, with its start and its progress.',
  spec: conversationSpecSchema,
  status: conversationStatusSchema,
  printerColumns: [
    column('Title', '.status.shortTitle', 'Beginning of the title.'),
    column('Sandbox', '.status.sandboxStatus', 'STARTING, RUNNING, PAUSED, ERROR or MISSING.'),
    column('Execution', '.status.executionStatus', "Status of the agent's run."),
    column('Approval', '.status.approval.title', 'Tool call that waits for an answer.'),
    column('Start', '.status.start.status', 'Current status of the start.'),
    column('Repository', '.spec.repository.name', 'Repository of the conversation.'),
    column(
      'PR',
      '.status.pullRequests[-1].number',
      'Number of the last pull request of the conversation.',
      'integer',
    ),
    column('Owner', '.spec.owner', 'Owner of the conversation.'),
    wideColumn('PR-State', '.status.pullRequests[-1].state', 'Open, Closed or Merged.'),
    wideColumn('Sandbox-Name', '.status.sandboxName', 'Name of the sandbox of the conversation.'),
    wideColumn('Approval-ID', '.status.approval.id', 'Identifier of the question that waits.'),
    wideColumn('Reason', '.status.sandboxStatusReason', 'Reason of the phase of the sandbox.'),
    wideColumn('Cost', '.status.usage.cost', 'Cost of the calls of models in US dollars.'),
  ],
  selectableFields: ['.spec.owner', '.status.sandboxStatus', '.status.sandboxName'],
};

export const conversations = resourceOf<Conversation>(conversationDefinition);

/**
 * Annotation with the MAC of the secrets of the request under a key that derives from the master
 * key. A plain hash would confirm the guess of a short secret. Ciphertexts can not be compared,
 * because those of equal secrets differ. During a rotation, the MACs under earlier master keys are
 * accepted too.
 */
export const secretsMacAnnotation = 'conversation-operator.dev/secrets-hmac-sha256';

/** Status of the start; WORKING for a conversation that no controller has seen yet. */
export const startStatusOf = ({
  status,
}: {
  readonly status?: ConversationStatus | undefined;
}): StartStatus => status?.start?.status ?? 'WORKING';

export const isStartOver = (status: StartStatus): status is 'READY' | 'ERROR' =>
  status === 'READY' || status === 'ERROR';

type Starting = Pick<ConversationMessages, 'status'> & {
  readonly spec: { readonly sandboxName?: string | undefined };
};
/** Whether the start is in progress and needs a sandbox of its own, because the spec names none. */
export const wantsOwnSandbox = (conversation: Starting): boolean =>
  conversation.spec.sandboxName === undefined && !isStartOver(startStatusOf(conversation));
/** Whether the start needs a sandbox for itself, and the status names none yet. */
export const awaitsSandbox = (conversation: Starting): boolean =>
  wantsOwnSandbox(conversation) && conversation.status?.sandboxName === undefined;

/** Code of a start that waits for a budget for models, before it gets a sandbox. */
export const waitingForBudget = 'WaitingForBudget';
export const isStartHeld = ({ status }: Pick<ConversationMessages, 'status'>): boolean =>
  startStatusOf({ status }) === 'WORKING' && status?.start?.errorCode === waitingForBudget;

export const ConversationCondition = {
  /** The start is READY and the sandbox is RUNNING: the agent accepts messages. */
  ready: 'Ready',
  /** Nothing more happens in the conversation until a person acts. */
  finished: 'Finished',
  paused: pausedType,
  /** The agent waits for an answer to its question. Absent before the first question. */
  waitingForApproval: 'WaitingForApproval',
  /** The operator has announced the deletion of the conversation. Absent before that. */
  expiring: 'Expiring',
} as const;

/** The fields of a stored or cached conversation that show which messages are undelivered. */
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

export const FinishedReason = {
  finished: 'Finished',
  error: 'Error',
  stuck: 'Stuck',
  startFailed: 'StartFailed',
  sandboxGone: 'SandboxGone',
} as const;
export type FinishedReason = (typeof FinishedReason)[keyof typeof FinishedReason];

/** Why nothing more happens until a person acts; undefined if something may still happen. */
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
