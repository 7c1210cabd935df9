import { createHash } from 'node:crypto';
import {
  maxApprovalSummary,
  maxApprovalTitle,
  maxApprovalTool,
  type ApprovalKind,
  type ApprovalOption,
} from '../resources/approval.ts';
import { plainText } from '../resources/plain-text.ts';
import type { AgentCallOptions, AgentConversation, AgentEndpoint, AgentQuestion } from './agent.ts';
import { AgentError } from './errors.ts';
import { maxPageBytes, pathOf, type OpenHandsApi } from './openhands-api.ts';
import { conversationOf } from './openhands-mapping.ts';
import { actionEventsSchema, conversationInfoSchema, type ActionEvent } from './wire.ts';

/** The newest actions of a conversation, and whether they wait for an answer. */
export interface RecentActions {
  readonly conversation: Pick<AgentConversation, 'executionStatus'>;
  /** Newest first. */
  readonly actions: readonly ActionEvent[];
}

/** Maximum actions that are read: a model seldom requests more than some at once. */
const maxActions = 20;
/** Maximum reads of a conversation that changes meanwhile. */
const maxAttempts = 5;

const options: readonly ApprovalOption[] = [
  { id: 'approve', name: 'Approve', kind: 'allow_once' },
  { id: 'reject', name: 'Reject', kind: 'reject_once' },
];

/** Reads what the agent asks now. Throws `AgentError`. */
export async function openQuestion(
  api: OpenHandsApi,
  endpoint: AgentEndpoint,
  id: string,
  callOptions?: AgentCallOptions,
): Promise<AgentQuestion | undefined> {
  const read = async () =>
    conversationOf(await api.get(endpoint, callOptions, pathOf(id), conversationInfoSchema), id);
  for (let before = await read(), attempt = 1; ; attempt++) {
    if (before.executionStatus !== 'waiting_for_confirmation') return undefined;
    const { items: actions } = await api.get(
      endpoint,
      callOptions,
      `${pathOf(id)}/events/search`,
      actionEventsSchema,
      {
        query: { sort_order: 'TIMESTAMP_DESC', limit: maxActions, kind: 'ActionEvent' },
        maxBodyBytes: maxPageBytes,
      },
    );
    const conversation = await read();
    // The actions are those of the status only where nothing has happened between the reads.
    if (conversation.updatedAt === before.updatedAt) return questionOf({ conversation, actions });
    if (attempt === maxAttempts)
      throw new AgentError('busy', 'The conversation changes too fast to be read.');
    before = conversation;
  }
}

/** The actions that wait for an answer, oldest first: those of the model's last response. */
export function pendingActions({ conversation, actions }: RecentActions): readonly ActionEvent[] {
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
export function questionOf(recent: RecentActions): AgentQuestion | undefined {
  const pending = pendingActions(recent);
  const last = pending.at(-1);
  if (last === undefined) return undefined;
  const [first = last] = pending;
  const more = pending.length === 1 ? '' : ` and ${pending.length - 1} more`;
  const tools = [...new Set(pending.map(toolOf))].join(', ');
  return {
    id: last.id,
    title: `${plainText(titleOf(first), maxApprovalTitle - more.length)}${more}`,
    kind: pending.length === 1 ? kindOf(last) : 'other',
    tool: plainText(tools, maxApprovalTool),
    summary: plainText(pending.map(inputOf).join('\n\n'), maxApprovalSummary),
    options: [...options],
    callHash: callHashOf(pending.map((action) => [toolOf(action), action.action])),
  };
}

/** Identifies a call by its tools and their input, whatever id it has. */
export const callHashOf = (call: unknown): string =>
  createHash('sha256').update(JSON.stringify(call)).digest('hex');

const textIn = ({ action }: ActionEvent, field: string): string => {
  const value = action?.[field];
  return typeof value === 'string' ? value : '';
};

const toolOf = (action: ActionEvent): string => action.tool_name ?? 'tool';

const firstLine = (text: string): string => text.trim().split('\n', 1)[0] ?? '';

const titleOf = (action: ActionEvent): string =>
  firstLine(action.summary ?? '') ||
  firstLine(textIn(action, 'command')) ||
  firstLine(textIn(action, 'path')) ||
  toolOf(action);

/** A command as it is, and any other input as JSON. */
function inputOf(action: ActionEvent): string {
  const command = textIn(action, 'command');
  if (kindOf(action) === 'execute' && command !== '') return command;
  const { kind: _kind, ...input } = action.action ?? {};
  return `${toolOf(action)} ${JSON.stringify(input, undefined, 2)}`;
}

function kindOf(action: ActionEvent): ApprovalKind {
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
