import { z } from 'zod';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { startStatusOf } from '../../resources/conversation.ts';
import {
  startStatuses,
  startStepNames,
  startStepStates,
  type StartStatus,
  type StartStep,
} from '../../resources/conversation-status.ts';
import { conversationIdOf, startTaskIdOf } from '../../resources/ids.ts';
import type { AgentAccess } from './sandbox.ts';
import {
  idSchema,
  nullableText,
  pageSchema,
  timestampSchema,
  wireTime,
  wireTimeOrNull,
} from './schemas.ts';
import type { StartTexts } from '../lookup/start-texts.ts';
import { shownStart, shownStartSchema } from './start-fields.ts';

const stepSchema = z.object({
  name: z.enum(startStepNames),
  state: z.enum(startStepStates),
  started_at: timestampSchema,
  ended_at: timestampSchema.nullable(),
  exit_code: z.int().nullable(),
  output: nullableText.describe('The last of what it has printed, up to 4096 characters.'),
});

export const startTaskSchema = z.object({
  id: idSchema,
  created_by_user_id: z.string(),
  status: z.enum(startStatuses),
  detail: nullableText.describe('What happens at the moment or, with ERROR, what went wrong.'),
  error: nullableText.describe('What went wrong: the same text as detail. Null unless ERROR.'),
  failed_status: z
    .enum(startStatuses)
    .nullable()
    .describe('The status in which the start has failed. Null unless ERROR.'),
  app_conversation_id: idSchema.nullable().describe('Null until READY.'),
  sandbox_id: nullableText.describe('From WAITING_FOR_SANDBOX on.'),
  agent_server_url: nullableText,
  steps: z
    .array(stepSchema)
    .describe("What was run in the sandbox: the clone, and the repository's own set-up script."),
  request: shownStartSchema,
  created_at: timestampSchema,
  updated_at: timestampSchema,
});
export const startTaskList = z.array(startTaskSchema);
export const startTaskPage = pageSchema(startTaskSchema);
export type StartTask = z.output<typeof startTaskSchema>;

export interface Transition {
  readonly status: StartStatus;
  readonly time: string;
  readonly detail?: string | undefined;
}

/** All statuses of a start so far, oldest first, from WORKING to the current status. */
export function transitionsOf(
  conversation: CachedConversation,
): readonly [Transition, ...Transition[]] {
  const stored = conversation.status?.start?.transitions ?? [];
  const [first, ...others] = stored;
  const present = startStatusOf(conversation);
  const last = stored.at(-1)?.status ?? 'WORKING';
  const missing =
    present === last
      ? []
      : [{ status: present, time: stored.at(-1)?.time ?? conversation.metadata.creationTimestamp }];
  if (first?.status === 'WORKING') return [first, ...others, ...missing];
  return [
    { status: 'WORKING', time: conversation.metadata.creationTimestamp },
    ...stored,
    ...missing,
  ];
}

const statusBeforeError = (conversation: CachedConversation): StartStatus =>
  transitionsOf(conversation).findLast(({ status }) => status !== 'ERROR')?.status ?? 'WORKING';

/** A start task as it was at one of its transitions. */
export function startTaskAt(
  conversation: CachedConversation,
  texts: StartTexts,
  { status, time, detail }: Transition,
  access: AgentAccess | undefined,
): StartTask {
  const { metadata, spec } = conversation;
  const id = conversationIdOf(conversation);
  const start = conversation.status?.start;
  const error = status === 'ERROR' ? (start?.error ?? detail ?? 'The start failed.') : null;
  // While a start still waits, its `error` is the reason why it waits.
  const isPresent = status === startStatusOf(conversation);
  const waitsFor = isPresent ? (start?.error ?? progressOf(start?.steps)) : undefined;
  return {
    id: startTaskIdOf(id),
    created_by_user_id: spec.owner,
    status,
    detail: error ?? waitsFor ?? detail ?? null,
    error,
    failed_status: error === null ? null : statusBeforeError(conversation),
    app_conversation_id: status === 'READY' ? id : null,
    sandbox_id: sandboxIdAt(conversation, status),
    agent_server_url: status === 'READY' ? (access?.agentUrl ?? null) : null,
    steps: (conversation.lacksSteps ? texts.steps : (start?.steps ?? [])).map(stepView),
    request: shownStart(conversation, texts),
    created_at: wireTime(metadata.creationTimestamp),
    updated_at: wireTime(time),
  };
}

const stepView = (step: StartStep): z.output<typeof stepSchema> => ({
  name: step.name,
  state: step.state,
  started_at: wireTime(step.startedAt),
  ended_at: wireTimeOrNull(step.endedAt),
  exit_code: step.exitCode ?? null,
  output: step.output ?? null,
});

/**
 * The last output line of the running step. Parentheses replace square brackets, which terminal
 * clients would interpret as markup.
 */
function progressOf(steps: readonly StartStep[] | undefined): string | undefined {
  const line = steps
    ?.find(({ state }) => state === 'running')
    ?.output?.split('\n')
    .at(-1);
  return line === undefined || line === ''
    ? undefined
    : line.slice(0, 512).replaceAll('[', '(').replaceAll(']', ')').toWellFormed();
}

export const startTaskRecord = (
  conversation: CachedConversation,
  texts: StartTexts,
  access: AgentAccess | undefined,
): StartTask => {
  const transitions = transitionsOf(conversation);
  return startTaskAt(conversation, texts, transitions.at(-1) ?? transitions[0], access);
};

function sandboxIdAt(conversation: CachedConversation, status: StartStatus): string | null {
  if (status === 'WORKING') return null;
  const named = conversation.status?.sandboxName;
  if (named !== undefined) return named;
  // At WAITING_FOR_SANDBOX, the status may not name the sandbox yet. Its name can not be predicted,
  // because the start may claim a warm sandbox.
  return status === 'ERROR' ? null : (conversation.spec.sandboxName ?? null);
}
