import { createHash } from 'node:crypto';
import type { ApprovalKind, ApprovalOption } from '../resources/approval.ts';
import type { AgentCallOptions, AgentConversation, AgentEndpoint, AgentQuestion } from './agent.ts';
import { AgentError } from './errors.ts';
import { pathOf, type OpenHandsApi } from './openhands-api.ts';
import { conversationOf } from './openhands-mapping.ts';
import { actionEventsSchema, conversationInfoSchema, type ActionEvent } from './wire.ts';

/** The newest actions of a conversation, and whether they wait for an answer. */
export interface RecentActions {
  readonly conversation: Pick<AgentConversation, 'executionStatus'>;
  /** Newest first, at least to the first one of an earlier response. */
  readonly actions: readonly ActionEvent[];
  /** Whether older actions may wait as well. */
  readonly hasMore?: boolean;
}

/** Maximum actions of a page: a model seldom requests more than some at once. */
const actionsPerPage = 20;
/** Maximum actions of one response that are read. */
const maxActions = 400;
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
    let first: ActionEvent | undefined;
    const actions = await api.pages(
      endpoint,
      callOptions,
      `${pathOf(id)}/events/search`,
      actionEventsSchema,
      { sort_order: 'TIMESTAMP_DESC', limit: actionsPerPage, kind: 'ActionEvent' },
      (page) => {
        first ??= page[0];
        return first?.llm_response_id == null || !page.every((each) => isOfResponse(each, first));
      },
    );
    const conversation = await read();
    // The actions are those of the status only where nothing has happened between the reads.
    if (conversation.updatedAt === before.updatedAt)
      return questionOf({ conversation, actions, hasMore: actions.length >= maxActions });
    if (attempt === maxAttempts)
      throw new AgentError('busy', 'The conversation changes too fast to be read.');
    before = conversation;
  }
}

/** Whether the model has requested both actions at once. */
const isOfResponse = (action: ActionEvent, other: ActionEvent | undefined): boolean =>
  action.llm_response_id === other?.llm_response_id;

/** The actions that wait for an answer, oldest first: those of the model's last response. */
export function pendingActions({ conversation, actions }: RecentActions): readonly ActionEvent[] {
  const [last] = actions;
  if (conversation.executionStatus !== 'waiting_for_confirmation' || last === undefined) return [];
  if (last.llm_response_id == null) return [last];
  const others = actions.findIndex((action) => !isOfResponse(action, last));
  return (others === -1 ? actions : actions.slice(0, others)).toReversed();
}

/**
 * The question about all pending actions; undefined where nothing waits. Its id is made of that of
 * the last action and of the calls, so that an answer never counts for other calls.
 */
export function questionOf(recent: RecentActions): AgentQuestion | undefined {
  const pending = pendingActions(recent);
  const last = pending.at(-1);
  if (last === undefined) return undefined;
  const callHash = callHashOf(
    pending.map(({ tool_name: tool, action }) => [tool ?? null, action ?? null]),
  );
  return {
    id: questionIdOf(last.id, callHash),
    kind: pending.length === 1 ? kindOf(last) : 'other',
    options: [...options],
    callHash,
    calls: pending.map((event) => ({
      tool: event.tool_name ?? undefined,
      kind: kindOf(event),
      input: event.action,
      words: event.summary ?? undefined,
    })),
    isWhole: recent.hasMore !== true || pending.length < recent.actions.length,
  };
}

/** An id that a resource can hold, whatever text the agent uses for its actions. */
const questionIdOf = (actionId: string, callHash: string): string =>
  `${/^[\x21-\x7e]{1,64}$/.test(actionId) ? actionId : callHashOf(actionId).slice(0, 32)}.${callHash.slice(0, 12)}`;

/** Identifies a call by its tools and their input, whatever id it has. */
export const callHashOf = (call: unknown): string =>
  createHash('sha256').update(JSON.stringify(call)).digest('hex');

function kindOf({ action }: ActionEvent): ApprovalKind {
  const { kind } = (action ?? {}) as { readonly kind?: unknown };
  switch (kind) {
    case 'TerminalAction':
    case 'ExecuteBashAction':
      return 'execute';
    case 'FileEditorAction':
      return 'edit';
    default:
      return 'other';
  }
}
