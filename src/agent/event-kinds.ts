/** An event as an agent has stored it. Agents are not trusted, so every field may be anything. */
export type AgentEvent = Readonly<Record<string, unknown>>;

export const isEvent = (value: unknown): value is AgentEvent =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
export const objectOf = (value: unknown): AgentEvent => (isEvent(value) ? value : {});
export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** The text of a content: a string, or a list of parts. */
export const contentText = (content: unknown): string =>
  typeof content === 'string'
    ? content
    : listOf(content)
        .map((part) => textOf(objectOf(part)['text']))
        .filter((text) => text !== '')
        .join('\n');

/** The treatment of the events of one kind. */
interface EventKind {
  /** How the page shows them; `hidden`: not at all, or as another event's result. */
  readonly shown:
    'message' | 'action' | 'call' | 'failure' | 'interruption' | 'prompt' | 'state' | 'hidden';
  /** Set where the event is the result of an action; an `observed` one says itself how it ended. */
  readonly result?: 'observed' | 'failed' | 'rejected';
  /** Whether a search does not find their texts; absent: it does. */
  readonly isUnsearched?: boolean;
}

/** Every kind of events that people read, by its name. The page shows any other one as JSON. */
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
  // Every conversation has it.
  SystemPromptEvent: { shown: 'prompt', isUnsearched: true },
  // The row of its key says more.
  ConversationStateUpdateEvent: { shown: 'state' },
} satisfies Readonly<Record<string, EventKind>>;

/** The treatment of one state of a run. */
interface StateKind {
  readonly shown: 'notice' | 'problem' | 'folded';
  /** The name of what is folded. */
  readonly name?: string;
  /** The part of the value that the page shows; undefined: nothing. */
  readonly valueOf: (value: unknown) => unknown;
  readonly isUnsearched?: boolean;
}

/** A plan: a line for each entry, with its state. */
const planText = (plan: unknown): string =>
  listOf(plan)
    .map((entry) => {
      const { content, status } = objectOf(entry);
      return `${textOf(status)}: ${textOf(content)}`;
    })
    .join('\n');

/**
 * The states of a run that people read, by the keys of their events; all others are of programs.
 */
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

/** The row of an event's kind; undefined for a kind that has none. */
export const eventKindOf = ({ kind }: { readonly kind?: unknown }): EventKind | undefined =>
  kinds.get(kind);
/** The row of the key of an event of state; undefined for a state that only programs read. */
export const stateKindOf = ({ key }: AgentEvent): StateKind | undefined => states.get(key);

/** Whether a search finds the texts of an event. */
export function isSearched(event: AgentEvent): boolean {
  const kind = eventKindOf(event);
  const row = kind?.shown === 'state' ? (stateKindOf(event) ?? { isUnsearched: true }) : kind;
  return row?.isUnsearched !== true;
}

/** Whether an action of this kind is no call of a tool, but the last message of the agent. */
export const isLastMessage = (action: unknown): boolean =>
  action === 'FinishAction' || action === 'MessageAction';

/** Whether an exit code is that of a failure: -1 is that of a command which still runs. */
export const isFailureCode = (exitCode: unknown): exitCode is number =>
  typeof exitCode === 'number' && exitCode !== 0 && exitCode !== -1;
