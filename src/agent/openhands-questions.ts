import { createHash } from 'node:crypto';
import type { ApprovalKind, ApprovalOption } from '../resources/approval.ts';
import type { AgentCallOptions, AgentConversation, AgentEndpoint, AgentQuestion } from './agent.ts';
import { AgentError, isAgentError } from './errors.ts';
import { maxPages, pathOf, type OpenHandsApi } from './openhands-api.ts';
import { conversationOf } from './openhands-mapping.ts';
import {
  actionEventsSchema,
  conversationInfoSchema,
  rejectionEventsSchema,
  type ActionEvent,
} from './wire.ts';

export interface RecentActions {
  readonly conversation: Pick<AgentConversation, 'executionStatus'> &
    Partial<Pick<AgentConversation, 'updatedAt'>>;
  /** Newest first. The list ends on the first page with an action of an earlier model response. */
  readonly actions: readonly ActionEvent[];
  /** Whether older actions, which were not read, may wait for an answer, too. */
  readonly hasMore?: boolean;
  /** Reason why older actions could not be read. */
  readonly problem?: string;
}

/** Maximum actions of a page. A model rarely requests more in one response. */
const actionsPerPage = 20;
/** Maximum attempts to read a conversation that changes during each attempt. */
const maxAttempts = 5;

const options: readonly ApprovalOption[] = [
  { id: 'approve', name: 'Approve', kind: 'allow_once' },
  { id: 'reject', name: 'Reject', kind: 'reject_once' },
];

/** Reads the open request of the agent for an approval of tool calls. Throws `AgentError`. */
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
    const recent = await recentActions(api, endpoint, id, callOptions);
    const conversation = await read();
    // If the conversation has changed between the two reads, the actions may not match its status.
    if (conversation.updatedAt === before.updatedAt) return questionOf({ conversation, ...recent });
    if (attempt === maxAttempts)
      throw new AgentError('busy', 'The conversation changes too fast to be read.');
    before = conversation;
  }
}

/** Reads the newest actions in pages. If a page is too large, reads the actions one by one. */
async function recentActions(
  api: OpenHandsApi,
  endpoint: AgentEndpoint,
  id: string,
  callOptions: AgentCallOptions | undefined,
): Promise<Omit<RecentActions, 'conversation'>> {
  const read = async (limit: number): Promise<Omit<RecentActions, 'conversation'>> => {
    const before: ActionEvent[] = [];
    const isEnough = (page: readonly ActionEvent[]) => {
      before.push(...page);
      const [first] = before;
      return first?.llm_response_id == null || !page.every((each) => isOfResponse(each, first));
    };
    try {
      const actions = await api.pages(
        endpoint,
        callOptions,
        `${pathOf(id)}/events/search`,
        actionEventsSchema,
        { sort_order: 'TIMESTAMP_DESC', limit, kind: 'ActionEvent' },
        isEnough,
        { hasExactNumbers: true },
      );
      return { actions, hasMore: actions.length >= limit * maxPages };
    } catch (error) {
      if (!isAgentError(error, 'malformed')) throw error;
      return { actions: before, problem: error.message };
    }
  };
  const recent = await read(actionsPerPage);
  return recent.problem === undefined ? recent : read(1);
}

/** Whether both actions come from the same response of the model. */
const isOfResponse = (action: ActionEvent, other: ActionEvent | undefined): boolean =>
  action.llm_response_id === other?.llm_response_id;

/** The actions that wait for an answer, oldest first. All belong to the last model response. */
export function pendingActions({ conversation, actions }: RecentActions): readonly ActionEvent[] {
  const [last] = actions;
  if (conversation.executionStatus !== 'waiting_for_confirmation' || last === undefined) return [];
  if (last.llm_response_id == null) return [last];
  const others = actions.findIndex((action) => !isOfResponse(action, last));
  return (others === -1 ? actions : actions.slice(0, others)).toReversed();
}

/**
 * The question about all pending actions; undefined without such actions. The id contains the id of
 * the last action and a hash of the calls, so that an answer never counts for other calls.
 * Unreadable actions are a question too, so that a person can reject them.
 */
export function questionOf(recent: RecentActions): AgentQuestion | undefined {
  const { conversation, actions, hasMore = false, problem } = recent;
  const pending = pendingActions(recent);
  const last = pending.at(-1);
  const isWaiting = conversation.executionStatus === 'waiting_for_confirmation';
  if (!isWaiting || (last === undefined && problem === undefined)) return undefined;
  const isWhole = pending.length < actions.length || (!hasMore && problem === undefined);
  const calls: unknown[] = pending.map(({ tool_name: tool, action }) => [
    tool ?? null,
    action ?? null,
  ]);
  const unread =
    isWhole || problem === undefined
      ? []
      : [problem, last === undefined ? (conversation.updatedAt ?? null) : null];
  const callHash = callHashOf([...calls, ...unread]);
  return {
    id: questionIdOf(last?.id ?? 'unread', callHash),
    kind: last !== undefined && pending.length === 1 ? kindOf(last) : 'other',
    options: [...options],
    callHash,
    calls: pending.map((event) => ({
      tool: event.tool_name ?? undefined,
      kind: kindOf(event),
      input: event.action,
      words: event.summary ?? undefined,
    })),
    isWhole,
    ...(isWhole || problem === undefined
      ? {}
      : {
          why: `${last === undefined ? 'they' : 'the calls before'} can not be shown: ${problem}`,
        }),
  };
}

/** Question id that a resource can store, whatever id the agent gives to the action. */
const questionIdOf = (actionId: string, callHash: string): string =>
  `${storableId(actionId)}.${callHash.slice(0, 12)}`;
const storableId = (actionId: string): string =>
  /^[\x21-\x7e]{1,64}$/.test(actionId) ? actionId : callHashOf(actionId).slice(0, 32);

/** Whether the last action of the question is among the latest 20 rejections. */
export async function isRejected(
  api: OpenHandsApi,
  endpoint: AgentEndpoint,
  id: string,
  questionId: string,
  callOptions?: AgentCallOptions,
): Promise<boolean> {
  const { items } = await api.get(
    endpoint,
    callOptions,
    `${pathOf(id)}/events/search`,
    rejectionEventsSchema,
    { query: { sort_order: 'TIMESTAMP_DESC', limit: 20, kind: 'UserRejectObservation' } },
  );
  return items.some(
    ({ action_id: actionId }) =>
      actionId != null && questionId.replace(/\.[^.]*$/, '') === storableId(actionId),
  );
}

/** Hash of a tool call's content, such as its tool and input. The call's id is not included. */
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
