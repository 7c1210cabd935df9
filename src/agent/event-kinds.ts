/** An event as an agent has stored it. Agents are not trusted, so each field may have any type. */
export type AgentEvent = Readonly<Record<string, unknown>>;

export const isEvent = (value: unknown): value is AgentEvent =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
export const objectOf = (value: unknown): AgentEvent => (isEvent(value) ? value : {});
export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** The text of a message's `content`, which is a string or a list of parts. */
export const contentText = (content: unknown): string =>
  typeof content === 'string'
    ? content
    : listOf(content)
        .map((part) => textOf(objectOf(part)['text']))
        .filter((text) => text !== '')
        .join('\n');

interface EventKind {
  /** How the web page shows the event. `hidden`: not at all, or within the event of its action. */
  readonly shown:
    'message' | 'action' | 'call' | 'failure' | 'interruption' | 'prompt' | 'state' | 'hidden';
  /** `observed`: the event contains the outcome of an action. Absent: the event is no result. */
  readonly result?: 'observed' | 'failed' | 'rejected';
  /** Whether searches skip the texts of the event. Absent: false. */
  readonly isUnsearched?: boolean;
}

/** Kinds of events that the web page shows as text. The page shows any other kind as JSON. */
export const eventKinds = {
  MessageEvent: { shown: 'message' },
  ActionEvent: { shown: 'action' },
  ObservationEvent: { shown: 'hidden', result: 'observed' },
  AgentErrorEvent: { shown: 'hidden', result: 'failed' },
  UserRejectObservation: { shown: 'hidden', result: 'rejected' },
  ACPToolCallEvent: { shown: 'call' },
  ConversationErrorEvent: { shown: 'failure' },
  PauseEvent: { shown: 'interruption' },
  InterruptEvent: { shown: 'interruption' },
  // Searches skip the system prompt, because it would match in every conversation.
  SystemPromptEvent: { shown: 'prompt', isUnsearched: true },
  // `stateKinds` says how the page shows a state event, by its key.
  ConversationStateUpdateEvent: { shown: 'state' },
} satisfies Readonly<Record<string, EventKind>>;

interface StateKind {
  readonly shown: 'notice' | 'problem' | 'folded';
  /** Title of the section that the reader can unfold. */
  readonly name?: string;
  /** Returns what the page shows; undefined: the page shows nothing. */
  readonly valueOf: (value: unknown) => unknown;
  readonly isUnsearched?: boolean;
}

/** The text of an agent's plan, one line `status: content` for each entry. */
const planText = (plan: unknown): string =>
  listOf(plan)
    .map((entry) => {
      const { content, status } = objectOf(entry);
      return `${textOf(status)}: ${textOf(content)}`;
    })
    .join('\n');

/** How the page shows a state event, by its key. The page shows no state event with another key. */
const stateKinds: Readonly<Record<string, StateKind>> = {
  acp_session_lost: {
    shown: 'problem',
    valueOf: (reason) => `The agent could not open its session: ${textOf(reason)}`,
  },
  acp_images_skipped: { shown: 'problem', valueOf: textOf },
  acp_mcp_skipped: { shown: 'problem', valueOf: textOf },
  acp_secrets_skipped: {
    shown: 'problem',
    valueOf: (names) => `The agent does not get: ${listOf(names).join(', ')}`,
  },
  acp_continued: {
    shown: 'notice',
    valueOf: (from) =>
      from === 'transcript'
        ? 'The agent continues in a new session, with what was said before.'
        : undefined,
    isUnsearched: true,
  },
  thought: { shown: 'folded', name: 'Thought', valueOf: contentText },
  plan: { shown: 'folded', name: 'Plan', valueOf: planText },
  acp_update: { shown: 'folded', name: 'Update of the agent', valueOf: (value) => value },
};

const kinds: ReadonlyMap<unknown, EventKind> = new Map(Object.entries(eventKinds));
const states: ReadonlyMap<unknown, StateKind> = new Map(Object.entries(stateKinds));

export const eventKindOf = ({ kind }: { readonly kind?: unknown }): EventKind | undefined =>
  kinds.get(kind);
/** Undefined for a state event that the page does not show. */
export const stateKindOf = ({ key }: AgentEvent): StateKind | undefined => states.get(key);

export function isSearched(event: AgentEvent): boolean {
  const kind = eventKindOf(event);
  const row = kind?.shown === 'state' ? (stateKindOf(event) ?? { isUnsearched: true }) : kind;
  return row?.isUnsearched !== true;
}

/** Whether an action is the final message of the agent, and no tool call. */
export const isLastMessage = (action: unknown): boolean =>
  action === 'FinishAction' || action === 'MessageAction';

/** Whether a command has failed. The exit code -1 means that the command still runs. */
export const isFailureCode = (exitCode: unknown): exitCode is number =>
  typeof exitCode === 'number' && exitCode !== 0 && exitCode !== -1;
