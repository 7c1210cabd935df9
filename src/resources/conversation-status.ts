import { z } from 'zod';
import { conditionsSchema } from './conditions.ts';
import { objectName, observedGeneration, timestamp } from './schema.ts';

/** Statuses of a start in their order. ERROR can follow each of them but READY. */
export const startStatuses = [
  'WORKING',
  'WAITING_FOR_SANDBOX',
  'PREPARING_REPOSITORY',
  'SETTING_UP_SKILLS',
  'READY',
  'ERROR',
] as const;
export type StartStatus = (typeof startStatuses)[number];

export const sandboxStatuses = ['STARTING', 'RUNNING', 'PAUSED', 'ERROR', 'MISSING'] as const;
export type SandboxStatus = (typeof sandboxStatuses)[number];

export const executionStatuses = [
  'idle',
  'running',
  'paused',
  'waiting_for_confirmation',
  'finished',
  'error',
  'stuck',
] as const;
export type ExecutionStatus = (typeof executionStatuses)[number];

/** Maximum characters of a title. */
export const maxTitleLength = 200;
/** Maximum characters of the title in a table of kubectl. */
export const maxShortTitleLength = 40;

const transitionSchema = z.object({
  status: z.enum(startStatuses).meta({ description: 'Status that the start entered.' }),
  time: timestamp().meta({ description: 'Time at which the start entered the status.' }),
  detail: z.string().max(2048).optional().meta({ description: 'Explanation for people.' }),
});

export const startStepNames = ['clone', 'setup'] as const;
export const startStepStates = ['running', 'done', 'failed'] as const;

const startStepSchema = z.object({
  name: z
    .enum(startStepNames)
    .meta({ description: "clone, or setup: the repository's own set-up script." }),
  state: z.enum(startStepStates).meta({ description: 'running, done or failed.' }),
  startedAt: timestamp().meta({ description: 'Time at which the step began.' }),
  updatedAt: timestamp().meta({
    description: 'Time at which the operator last saw a change of the step.',
  }),
  endedAt: timestamp()
    .optional()
    .meta({ description: 'Time at which the step ended. Absent while the step runs.' }),
  exitCode: z
    .int()
    .min(0)
    .max(255)
    .optional()
    .meta({ description: 'Exit code of the command. Absent while the step runs.' }),
  output: z.string().max(4096).optional().meta({
    description:
      'Last part of the output, without control characters and without text that resembles a credential.',
  }),
});

export const conversationStatusSchema = z.object({
  observedGeneration: observedGeneration(),
  start: z
    .object({
      status: z.enum(startStatuses).meta({ description: 'Current status of the start.' }),
      transitions: z
        .array(transitionSchema)
        .max(8)
        .meta({ description: 'All statuses that the start has entered, oldest first.' }),
      errorCode: z.string().max(64).optional().meta({
        description:
          'Stable code of the error or, before that, of what delays the start; docs/reasons.md lists all codes.',
      }),
      error: z
        .string()
        .max(2048)
        .optional()
        .meta({ description: 'Explanation of the code for the owner.' }),
      deadline: timestamp()
        .optional()
        .meta({ description: 'Time at which the current step fails.' }),
      steps: z.array(startStepSchema).max(8).optional().meta({
        description:
          "Commands that the operator ran in the sandbox: the clone, and the repository's own set-up script.",
      }),
    })
    .optional()
    .meta({
      description:
        'Start of the conversation. Written by the operator; absent until the operator has seen the conversation.',
    }),
  sandboxName: objectName().optional().meta({
    description:
      'Name of the sandbox of the conversation. Absent until the operator has chosen it.',
  }),
  sandboxUID: z.string().max(64).optional().meta({
    description: 'UID of the sandbox; a sandbox recreated under the same name has a different UID.',
  }),
  sandboxStatus: z
    .enum(sandboxStatuses)
    .optional()
    .meta({ description: 'Phase of the sandbox; MISSING once the sandbox is gone.' }),
  sandboxStatusReason: z.string().max(64).optional().meta({
    description: 'Reason of the phase of the sandbox; docs/reasons.md lists all reasons.',
  }),
  executionStatus: z.enum(executionStatuses).optional().meta({
    description: "Status of the agent's run. Absent until the agent has the conversation.",
  }),
  executionDetail: z
    .string()
    .max(2048)
    .optional()
    .meta({ description: 'Explanation of executionStatus for people.' }),
  agentEpoch: z.int().min(0).optional().meta({
    description: 'Value of agentEpoch of the sandbox when the operator last read executionStatus.',
  }),
  interruption: z
    .object({
      reason: z
        .string()
        .max(64)
        .meta({ description: 'Cause of the interruption; docs/reasons.md lists all causes.' }),
      time: timestamp().meta({ description: 'Time at which the operator saw the interruption.' }),
      lastResumeTime: timestamp().optional().meta({
        description:
          'Time at which the agent last accepted a resume of the run. Absent until then.',
      }),
      containerLosses: z.int().min(0).optional().meta({
        description:
          'Number of consecutive container losses, each of them soon after a resume of the run.',
      }),
      resumeAttempts: z.int().min(0).optional().meta({
        description:
          'Number of resumes that the operator has requested from the agent since the interruption.',
      }),
      resumeRejections: z
        .int()
        .min(0)
        .optional()
        .meta({ description: 'Number of those resumes that the agent has rejected.' }),
      abandonedReason: z.enum(['LostTooOften', 'Refused', 'Stalled']).optional().meta({
        description:
          'Reason why the operator no longer resumes the run. Absent while the operator still does.',
      }),
    })
    .optional()
    .meta({
      description:
        'Interruption of the current run. Absent when the run was not interrupted or is over.',
    }),
  messages: z
    .object({
      lastDelivered: z.int().min(0).meta({
        description:
          'Number of the last message in spec.messages that the agent has received; 0: none of them.',
      }),
      lastDeliveredTime: timestamp().optional().meta({
        description: 'Time at which the agent last received a message that starts a run.',
      }),
      runPending: z.boolean().optional().meta({
        description:
          'True: the agent has stored the last message and has not started a run for it yet.',
      }),
      previousExecutionStatus: z.enum(['paused', 'error']).optional().meta({
        description:
          'Status of the run before the message, which the agent reports until it starts the run.',
      }),
      inFlight: z
        .object({
          number: z.int().min(1).meta({ description: 'Number of the message in spec.messages.' }),
          attempt: z.int().min(1).meta({ description: 'Number of the delivery attempt, from 1.' }),
          time: timestamp().meta({ description: 'Time of the attempt.' }),
          container: z
            .string()
            .max(256)
            .optional()
            .meta({ description: 'ID of the container to which the message is sent.' }),
          after: z
            .object({
              id: z.string().max(128).meta({ description: 'ID of the event.' }),
              timestamp: z
                .string()
                .max(64)
                .meta({ description: "Timestamp of the event on the agent's clock." }),
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
    .meta({
      description:
        'Delivery of messages to the agent. Written by the operator; absent until the agent has the conversation.',
    }),
  title: z
    .string()
    .max(maxTitleLength)
    .optional()
    .meta({ description: "Title of the conversation: spec.title, else the agent's own title." }),
  shortTitle: z.string().max(maxShortTitleLength).optional().meta({
    description:
      'Beginning of the title, or of the first message where there is no title, for tables of kubectl. Written by the operator together with other fields; empty without a text.',
  }),
  lastActivityTime: timestamp().optional().meta({
    description:
      'Time of the last event of the agent. Absent until the agent has the conversation.',
  }),
  metrics: z
    .object({
      accumulatedCost: z
        .string()
        .max(32)
        .optional()
        .meta({ description: 'Cost in US dollars, as a decimal number.' }),
      promptTokens: z.int().min(0).optional().meta({ description: 'Number of tokens in prompts.' }),
      completionTokens: z
        .int()
        .min(0)
        .optional()
        .meta({ description: 'Number of tokens in completions.' }),
    })
    .optional()
    .meta({
      description: 'Usage that the agent reports. Absent until the agent has reported some.',
    }),
  conditions: conditionsSchema,
});

export type ConversationStatus = z.output<typeof conversationStatusSchema>;
export type StartStep = z.output<typeof startStepSchema>;
export type StartState = NonNullable<ConversationStatus['start']>;
export type MessageState = NonNullable<ConversationStatus['messages']>;
