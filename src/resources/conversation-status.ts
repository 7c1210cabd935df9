import { z } from 'zod';
import { approvalSchema, closedApprovalsSchema } from './approval.ts';
import { conditionsSchema } from './conditions.ts';
import { pushesSchema } from './git-settings.ts';
import { pullRequestsSchema } from './pull-request.ts';
import { runResultSchema } from './run-result.ts';
import {
  count,
  described,
  objectName,
  observedGeneration,
  optional,
  text,
  timestamp,
} from './schema.ts';
import { budgetCurrencies, decimalText, usageByModel, usageCounters } from './usage-counters.ts';

/** Name of an object of an archive: a position, and the beginning of the hash of its content. */
const archiveObjectName = () => text(64).regex(/^[0-9]{10}-[0-9a-f]{24}$/);

const archiveStatusSchema = z.object({
  head: optional(
    archiveObjectName(),
    'Name of the object in the archive that lists the others. Absent: nothing is archived.',
  ),
  events: described(count(), 'Number of archived events.'),
  bytes: described(z.int().min(0), 'Size of the archive in bytes, as stored.'),
  time: optional(timestamp(), 'Time at which the operator last archived events.'),
  files: optional(
    archiveObjectName(),
    "Name of the object with the names of the sandbox's files and the changes in its repository. Absent: there is none.",
  ),
  expiredTime: optional(
    timestamp(),
    'Time at which the operator deleted the archive, because its retention was over. Absent: never.',
  ),
});

export type ArchiveStatus = z.output<typeof archiveStatusSchema>;

/** Statuses of a start in their order. ERROR can follow each status except READY. */
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

export const maxTitleLength = 200;
/** Maximum characters of the title that `kubectl get` shows. */
export const maxShortTitleLength = 40;

const transitionSchema = z.object({
  status: described(z.enum(startStatuses), 'Status that the start entered.'),
  time: described(timestamp(), 'Time at which the start entered the status.'),
  detail: optional(text(2048), 'Explanation for people.'),
});

export const startStepNames = ['clone', 'setup'] as const;
export const startStepStates = ['running', 'done', 'failed'] as const;

const startStepSchema = z.object({
  name: described(z.enum(startStepNames), "clone, or setup: the repository's own set-up script."),
  state: described(z.enum(startStepStates), 'running, done or failed.'),
  startedAt: described(timestamp(), 'Time at which the step began.'),
  updatedAt: described(timestamp(), 'Time at which the operator last saw a change of the step.'),
  endedAt: optional(timestamp(), 'Time at which the step ended. Absent while the step runs.'),
  exitCode: optional(count().max(255), 'Exit code of the command. Absent while the step runs.'),
  output: optional(
    text(4096),
    'Last part of the output, without control characters and without text that resembles a credential.',
  ),
});

const budgetExhaustionSchema = z.object({
  quota: optional(
    objectName(),
    'Name of the ConversationQuota with the budget. Absent: the budget of the conversation itself.',
  ),
  record: described(objectName(), 'Name of the UsageRecord that counts the budget.'),
  account: described(z.string().min(1).max(300), 'Key of the account in that UsageRecord.'),
  unit: described(z.enum(budgetCurrencies), 'Unit of the amounts: US dollars or tokens.'),
  limit: described(decimalText(), 'Amount of the budget, without raises.'),
  raised: described(decimalText(), 'Amount that people had added at that time.'),
  spent: described(decimalText(), 'Amount that was spent at that time.'),
  time: described(timestamp(), 'Time of the refused call.'),
  resetTime: optional(
    timestamp(),
    'Time at which the budget starts again. Absent: it has no period.',
  ),
});
export type BudgetExhaustion = z.output<typeof budgetExhaustionSchema>;

/** Why a call of a model waits: for the provider, or for the limits of the key. */
export const modelWaitReasons = ['RateLimit', 'Share'] as const;
export type ModelWaitReason = (typeof modelWaitReasons)[number];

const modelWaitSchema = z.object({
  until: described(timestamp(), 'Time at which the wait is expected to be over.'),
  reason: described(
    z.enum(modelWaitReasons),
    'RateLimit: the provider limits the rate of the key. Share: other calls use up the limits of the key, or of its owner.',
  ),
});
export type ModelWait = z.output<typeof modelWaitSchema>;

/** Maximum characters of the path of the folder in which a conversation works. */
export const maxWorkingDirLength = 1024;

const hourlyUseSchema = z.object({
  startTime: described(timestamp(), 'Time at which the hour began.'),
  count: described(count(), 'Number of actions in this hour.'),
  previousCount: described(count(), 'Number of actions in the hour before.'),
});
/** Recent actions at git hosts, whose number per hour is limited. */
const hourlyUsesSchema = z.object({
  pushes: optional(hourlyUseSchema, 'Pushes. Absent until the first one.'),
  pullRequests: optional(
    hourlyUseSchema,
    'Pull requests and comments. Absent until the first one.',
  ),
});
export type HourlyUse = z.output<typeof hourlyUseSchema>;
export type HourlyUses = z.output<typeof hourlyUsesSchema>;

export const conversationStatusSchema = z.object({
  observedGeneration: observedGeneration(),
  start: optional(
    z.object({
      status: described(z.enum(startStatuses), 'Current status of the start.'),
      transitions: described(
        z.array(transitionSchema).max(8),
        'All statuses that the start has entered, oldest first.',
      ),
      errorCode: optional(
        text(64),
        'Stable code of the error or, before that, of what delays the start; docs/reasons.md lists all codes.',
      ),
      error: optional(text(2048), 'Explanation of the code for the owner.'),
      deadline: optional(timestamp(), 'Time at which the current step fails.'),
      steps: optional(
        z.array(startStepSchema).max(8),
        "Commands that the operator ran in the sandbox: the clone, and the repository's own set-up script.",
      ),
    }),
    'Start of the conversation. Written by the operator; absent until the operator has seen the conversation.',
  ),
  sandboxName: optional(
    objectName(),
    'Name of the sandbox of the conversation. Absent until the operator has chosen it.',
  ),
  sandboxUID: optional(
    text(64),
    'UID of the sandbox; a sandbox recreated under the same name has a different UID.',
  ),
  workingDir: optional(
    text(maxWorkingDirLength).startsWith('/'),
    'Absolute path of the folder that the agent works in, as the agent has it. Absent until the agent has the conversation.',
  ),
  sandboxStatus: optional(
    z.enum(sandboxStatuses),
    'Phase of the sandbox; MISSING once the sandbox is gone.',
  ),
  sandboxStatusReason: optional(
    text(64),
    'Reason of the phase of the sandbox; docs/reasons.md lists all reasons.',
  ),
  executionStatus: optional(
    z.enum(executionStatuses),
    "Status of the agent's run. Absent until the agent has the conversation.",
  ),
  executionDetail: optional(text(2048), 'Explanation of executionStatus for people.'),
  lastResult: optional(
    runResultSchema,
    'Result of the last run. Absent while a run is under way, and where the agent did not report it.',
  ),
  approval: optional(
    approvalSchema,
    'Question of the agent whether it may use a tool, or of the operator whether a budget may be raised. Absent without a question.',
  ),
  closedApprovals: optional(closedApprovalsSchema, 'Last questions that are closed, oldest first.'),
  lostAnswer: optional(
    text(128),
    'Identifier of the closed question whose answer had no effect. Absent once the next run begins.',
  ),
  agentEpoch: optional(
    count(),
    'Value of agentEpoch of the sandbox when the operator last read executionStatus.',
  ),
  interruption: optional(
    z.object({
      reason: described(text(64), 'Cause of the interruption; docs/reasons.md lists all causes.'),
      time: described(timestamp(), 'Time at which the operator saw the interruption.'),
      lastResumeTime: optional(
        timestamp(),
        'Time at which the agent last accepted a resume of the run. Absent until then.',
      ),
      containerLosses: optional(
        count(),
        'Number of consecutive container losses, each of them soon after a resume of the run.',
      ),
      resumeAttempts: optional(
        count(),
        'Number of resumes that the operator has requested from the agent since the interruption.',
      ),
      resumeRejections: optional(count(), 'Number of those resumes that the agent has rejected.'),
      resumesNotExecuted: optional(
        count(),
        'Number of those resumes that the agent has certainly not executed, for example because there was no connection.',
      ),
      abandonedReason: optional(
        z.enum(['LostTooOften', 'Refused', 'Stalled']),
        'Reason why the operator no longer resumes the run. Absent while the operator still does.',
      ),
    }),
    'Interruption of the current run. Absent when the run was not interrupted or is over.',
  ),
  messages: optional(
    z.object({
      lastDelivered: described(
        count(),
        'Number of the last message in spec.messages that the agent has received; 0: none of them.',
      ),
      lastDeliveredTime: optional(
        timestamp(),
        'Time at which the agent last received a message that starts a run.',
      ),
      runPending: optional(
        z.boolean(),
        'True: the agent has stored the last message and has not started a run for it yet.',
      ),
      previousExecutionStatus: optional(
        z.enum(['paused', 'error', 'stuck']),
        'Status of the run before the message, which the agent reports until it starts the run.',
      ),
      inFlight: optional(
        z.object({
          number: described(z.int().min(1), 'Number of the message in spec.messages.'),
          attempt: described(z.int().min(1), 'Number of the delivery attempt, from 1.'),
          time: described(timestamp(), 'Time of the attempt.'),
          container: optional(text(256), 'ID of the container to which the message is sent.'),
          after: optional(
            z.object({
              id: described(text(128), 'ID of the event.'),
              timestamp: described(text(64), "Timestamp of the event on the agent's clock."),
            }),
            'Last message event that the agent had before the attempt.',
          ),
        }),
        'Message whose delivery is under way. The operator stores it before it sends the message, so that a new operator can find out whether the agent received it.',
      ),
    }),
    'Delivery of messages to the agent. Written by the operator; absent until the agent has the conversation.',
  ),
  title: optional(
    text(maxTitleLength),
    "Title of the conversation: spec.title, else the agent's own title.",
  ),
  shortTitle: optional(
    text(maxShortTitleLength),
    'Beginning of the title, or of the first message where there is no title, for tables of kubectl. Written by the operator together with other fields; empty without a text.',
  ),
  lastActivityTime: optional(
    timestamp(),
    'Time of the last event of the agent. Absent until the agent has the conversation.',
  ),
  metrics: optional(
    z.object({
      accumulatedCost: optional(text(32), 'Cost in US dollars, as a decimal number.'),
      promptTokens: optional(count(), 'Number of tokens in prompts.'),
      completionTokens: optional(count(), 'Number of tokens in completions.'),
    }),
    'Usage that the agent reports. Absent until the agent has reported some.',
  ),
  usage: optional(
    z.object({ ...usageCounters(), byModel: described(usageByModel(), 'The same by model.') }),
    'Calls of models through the relay. Written by the operator from the UsageRecords, and never lowered. Absent: there was none.',
  ),
  budgetExhaustion: optional(
    budgetExhaustionSchema,
    'Budget for which the relay refused a call of a model. Written by the gateway; the operator removes it once a person has answered, or the budget has room again. Absent: no budget holds the run up.',
  ),
  modelWait: optional(
    modelWaitSchema,
    'Last wait of a call of a model for three seconds or more, which is over once its time is past. Written by the gateway; absent: there was none.',
  ),
  pushes: optional(
    pushesSchema,
    'Last pushes of the sandbox to the repository of the conversation, oldest first. Written by the gateway.',
  ),
  pullRequests: optional(
    pullRequestsSchema,
    'Last pull requests of the conversation, oldest first. Written by the gateway.',
  ),
  hourlyUses: optional(
    hourlyUsesSchema,
    'Pushes, pull requests and comments that count for the hourly limits of the template. Written by the gateway.',
  ),
  providedHandovers: optional(
    count(),
    'Value of spec.handovers of the sandbox when the operator last gave its agent the tokens and the settings of the owner. Absent: at the start.',
  ),
  archive: optional(
    archiveStatusSchema,
    'What the archive has of the conversation. Written by the operator; absent until something is archived.',
  ),
  conditions: conditionsSchema,
});

export type ConversationStatus = z.output<typeof conversationStatusSchema>;
export type ConversationUsage = NonNullable<ConversationStatus['usage']>;
export type StartStep = z.output<typeof startStepSchema>;
export type MessageState = NonNullable<ConversationStatus['messages']>;
