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

interface EventKind {
  /** How the page shows the events; `hidden`: not at all, or as the result of another event. */
  readonly shown:
    'message' | 'action' | 'call' | 'failure' | 'interruption' | 'prompt' | 'state' | 'hidden';
  /** Set for the result of an action; `observed`: the event itself has the outcome. */
  readonly result?: 'observed' | 'failed' | 'rejected';
  /** Whether searches skip the texts of these events. Absent: false. */
  readonly isUnsearched?: boolean;
}

/** Kinds of events that people read, by name. The page shows any other kind as JSON. */
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
  // Every conversation has such an event.
  SystemPromptEvent: { shown: 'prompt', isUnsearched: true },
  // `stateKinds` says how an event with a known key is shown.
  ConversationStateUpdateEvent: { shown: 'state' },
} satisfies Readonly<Record<string, EventKind>>;

interface StateKind {
  readonly shown: 'notice' | 'problem' | 'folded';
  /** Title of the folded value. */
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

/** Run states that people read, by the keys of their events; all other states are for programs. */
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
/** Treatment of a state event by its key; undefined for a state that only programs read. */
export const stateKindOf = ({ key }: AgentEvent): StateKind | undefined => states.get(key);

export function isSearched(event: AgentEvent): boolean {
  const kind = eventKindOf(event);
  const row = kind?.shown === 'state' ? (stateKindOf(event) ?? { isUnsearched: true }) : kind;
  return row?.isUnsearched !== true;
}

/** Whether an action is the last message of the agent instead of a tool call. */
export const isLastMessage = (action: unknown): boolean =>
  action === 'FinishAction' || action === 'MessageAction';

/** Whether an exit code is a failure; a command that still runs has -1. */
export const isFailureCode = (exitCode: unknown): exitCode is number =>
  typeof exitCode === 'number' && exitCode !== 0 && exitCode !== -1;
