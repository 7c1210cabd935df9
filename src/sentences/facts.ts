import type { ConversationRecord } from '../gateway/presenters/conversation.ts';
import type { SandboxRecord } from '../gateway/presenters/sandbox.ts';
import type { StartTask } from '../gateway/presenters/start-task.ts';

/** The records of one conversation. At least one of `conversation` and `task` is set. */
export interface Facts {
  readonly conversation?: ConversationRecord | undefined;
  readonly task?: StartTask | undefined;
  readonly sandbox?: SandboxRecord | undefined;
}

const isUnderWay = (task: StartTask | undefined): boolean =>
  task !== undefined && task.status !== 'READY' && task.status !== 'ERROR';

/** The status of the sandbox, even before the stream has sent the record of a new start. */
export function sandboxStatusOf({
  conversation,
  task,
}: Facts): ConversationRecord['sandbox_status'] {
  // The sandbox may run before the start of the conversation is complete.
  if (conversation?.sandbox_status === 'RUNNING' && isUnderWay(task)) return 'STARTING';
  if (conversation !== undefined) return conversation.sandbox_status;
  return task?.status === 'ERROR' ? 'ERROR' : 'STARTING';
}

const firstTextOf = (task: StartTask | undefined): string | undefined => {
  const part = task?.request.initial_message?.content.find(({ type }) => type === 'text');
  return part?.type === 'text' ? part.text.split('\n')[0]?.slice(0, 200) : undefined;
};

export const titleOf = ({ conversation, task }: Facts): string =>
  conversation?.title ?? task?.request.title ?? (firstTextOf(task) || 'New conversation');

export const createdAtOf = ({ conversation, task }: Facts): string =>
  conversation?.created_at ?? task?.created_at ?? '';

export const updatedAtOf = ({ conversation, task }: Facts): string =>
  conversation?.updated_at ?? task?.updated_at ?? '';

export const repositoryOf = ({ conversation, task }: Facts): string | undefined =>
  conversation?.selected_repository ?? task?.request.selected_repository ?? undefined;

export const branchOf = ({ conversation, task }: Facts): string | undefined =>
  conversation?.selected_branch ?? task?.request.selected_branch ?? undefined;

/** The name of the running agent, else its kind. */
export const agentOf = ({ conversation }: Facts): string | undefined =>
  conversation?.agent_name ?? conversation?.agent_kind;

export const templateOf = ({ sandbox, task }: Facts): string | undefined =>
  sandbox?.sandbox_spec_id ?? task?.request.sandbox_spec_id ?? undefined;

export const sandboxIdOf = ({ conversation, task }: Facts): string | undefined =>
  conversation?.sandbox_id ?? task?.sandbox_id ?? undefined;

/** Whether the start has failed or the sandbox is unknown, so that a resume can not succeed. */
export const isFailedStart = ({ task, sandbox }: Facts): boolean =>
  task?.status === 'ERROR' || sandbox === undefined;
