import { z } from 'zod';
import type { RecentActions } from '../../agent/control.ts';
import { sandboxStatuses } from '../../resources/conversation-status.ts';
import { plainText } from '../../resources/plain-text.ts';
import { idSchema, timestampSchema, wireTime } from './schemas.ts';

export const approvalKinds = ['execute', 'edit', 'other'] as const;
export const optionKinds = ['allow_once', 'allow_always', 'reject_once', 'reject_always'] as const;

export const approvalSchema = z.object({
  id: z.string(),
  conversation_id: idSchema,
  title: z.string().describe('What the agent wants to do, in a line.'),
  kind: z.enum(approvalKinds),
  tool: z.string().describe('Names of the tools.'),
  summary: z.string().describe('The input of the tools, up to 4096 characters.'),
  options: z.array(z.object({ id: z.string(), name: z.string(), kind: z.enum(optionKinds) })),
  requested_at: timestampSchema,
  sandbox_status: z.enum(sandboxStatuses),
});
export type Approval = z.output<typeof approvalSchema>;

const maxTitleCharacters = 200;
const maxToolCharacters = 200;
const maxSummaryCharacters = 4096;

export const optionIds = ['approve', 'reject'] as const;
export type OptionId = (typeof optionIds)[number];

const options = [
  { id: 'approve', name: 'Approve', kind: 'allow_once' },
  { id: 'reject', name: 'Reject', kind: 'reject_once' },
] as const satisfies readonly {
  readonly id: OptionId;
  readonly name: string;
  readonly kind: unknown;
}[];

type Action = RecentActions['actions'][number];

/** The actions that wait for an answer, oldest first: those of the model's last response. */
export function pendingActions({ conversation, actions }: RecentActions): readonly Action[] {
  const [last] = actions;
  if (conversation.executionStatus !== 'waiting_for_confirmation' || last === undefined) return [];
  const response = last.llm_response_id ?? undefined;
  if (response === undefined) return [last];
  const others = actions.findIndex(({ llm_response_id: id }) => id !== response);
  return (others === -1 ? actions : actions.slice(0, others)).toReversed();
}

/**
 * The question about all pending actions; undefined where nothing waits. Its id is that of the last
 * action, so that an answer never counts for actions that a person has not seen.
 */
export function presentApproval(recent: RecentActions): Approval | undefined {
  const pending = pendingActions(recent);
  const last = pending.at(-1);
  if (last === undefined) return undefined;
  const { id, updatedAt } = recent.conversation;
  const [first = last] = pending;
  const more = pending.length === 1 ? '' : ` and ${pending.length - 1} more`;
  const tools = [...new Set(pending.map(toolOf))].join(', ');
  return {
    id: last.id,
    conversation_id: id,
    title: `${plainText(titleOf(first), maxTitleCharacters)}${more}`,
    kind: pending.length === 1 ? kindOf(last) : 'other',
    tool: plainText(tools, maxToolCharacters),
    summary: plainText(pending.map(inputOf).join('\n\n'), maxSummaryCharacters),
    options: [...options],
    requested_at: wireTime(updatedAt ?? 0),
    sandbox_status: 'RUNNING',
  };
}

const textIn = ({ action }: Action, field: string): string => {
  const value = action?.[field];
  return typeof value === 'string' ? value : '';
};

const toolOf = (action: Action): string => action.tool_name ?? 'tool';

const firstLine = (text: string): string => text.trim().split('\n', 1)[0] ?? '';

const titleOf = (action: Action): string =>
  firstLine(action.summary ?? '') ||
  firstLine(textIn(action, 'command')) ||
  firstLine(textIn(action, 'path')) ||
  toolOf(action);

/** A command as it is, and any other input as JSON. */
function inputOf(action: Action): string {
  const command = textIn(action, 'command');
  if (kindOf(action) === 'execute' && command !== '') return command;
  const { kind: _kind, ...input } = action.action ?? {};
  return `${toolOf(action)} ${JSON.stringify(input, undefined, 2)}`;
}

function kindOf(action: Action): Approval['kind'] {
  switch (action.action?.['kind']) {
    case 'TerminalAction':
    case 'ExecuteBashAction':
      return 'execute';
    case 'FileEditorAction':
      return 'edit';
    default:
      return 'other';
  }
}
