/** An event as an agent has stored it. Agents are not trusted, so every field may be anything. */
export type AgentEvent = Readonly<Record<string, unknown>>;

interface EntryBase {
  readonly id: string;
  /** The agent's local time, without a zone; empty where the event has none. */
  readonly time: string;
}
export interface MessageEntry extends EntryBase {
  readonly kind: 'message';
  readonly source: 'user' | 'agent';
  readonly text: string;
  /** Images as data URLs. */
  readonly images: readonly string[];
}
export type ToolState = 'running' | 'done' | 'failed' | 'rejected';
export interface ToolEntry extends EntryBase {
  readonly kind: 'tool';
  readonly tool: string;
  /** One line that says what the tool does. */
  readonly summary: string;
  readonly input: string;
  readonly output: string;
  readonly state: ToolState;
}
export interface NoticeEntry extends EntryBase {
  readonly kind: 'notice';
  readonly text: string;
  readonly isProblem: boolean;
}
/** One event as people read it, or a tool call with its result. */
export type Entry = MessageEntry | ToolEntry | NoticeEntry;

/** Longest text of an entry in UTF-16 units, so that no event makes the page slow. */
export const maxTextLength = 20_000;
const maxSummaryLength = 200;
const maxImages = 20;

export const isEvent = (value: unknown): value is AgentEvent =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const objectOf = (value: unknown): AgentEvent => (isEvent(value) ? value : {});
const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

function bounded(text: string): string {
  const more = text.length - maxTextLength;
  return more <= 0 ? text : `${text.slice(0, maxTextLength)}\n… ${more} characters more`;
}

const firstLine = (text: string): string => {
  const line = text.trim().split('\n', 1)[0] ?? '';
  return line.length <= maxSummaryLength ? line : `${line.slice(0, maxSummaryLength)}…`;
};

/** The text of a content: a string, or a list of parts. */
const contentText = (content: unknown): string =>
  typeof content === 'string'
    ? content
    : listOf(content)
        .map((part) => textOf(objectOf(part)['text']))
        .filter((text) => text !== '')
        .join('\n');

/** Only images that are in the event itself: a request would report the reader to another host. */
const contentImages = (content: unknown): readonly string[] =>
  listOf(content)
    .flatMap((part) => listOf(objectOf(part)['image_urls']))
    .map(textOf)
    .filter((url) => /^data:image\/(png|jpeg|gif|webp);/.test(url))
    .slice(0, maxImages);

export const idOf = (event: AgentEvent): string => textOf(event['id']);

const baseOf = (event: AgentEvent): EntryBase => ({
  id: idOf(event),
  time: textOf(event['timestamp']),
});

function messageOf(event: AgentEvent, text: string, content?: unknown): MessageEntry | undefined {
  const images = contentImages(content);
  if (text.trim() === '' && images.length === 0) return undefined;
  const source = event['source'] === 'user' ? 'user' : 'agent';
  return { ...baseOf(event), kind: 'message', source, text: bounded(text), images };
}

const notice = (event: AgentEvent, text: string, isProblem = false): NoticeEntry => ({
  ...baseOf(event),
  kind: 'notice',
  text: bounded(text),
  isProblem,
});

const describe = (value: unknown): string => {
  const { kind: _kind, ...fields } = objectOf(value);
  const [only, ...others] = Object.values(fields).filter((field) => field !== null);
  if (others.length === 0 && typeof only === 'string') return only;
  return Object.keys(fields).length === 0 ? '' : JSON.stringify(fields, undefined, 2);
};

function toolOf(event: AgentEvent): ToolEntry {
  const action = objectOf(event['action']);
  const command = textOf(action['command']);
  const input = command !== '' ? command : describe(action);
  const path = textOf(action['path']);
  return {
    ...baseOf(event),
    kind: 'tool',
    tool: textOf(event['tool_name']) || textOf(action['kind']) || 'tool',
    summary: firstLine(textOf(event['summary']) || command || path || input),
    input: bounded(path === '' || command === '' ? input : describe(action)),
    output: '',
    state: 'running',
  };
}

/** An agent's action: what it thinks before, and the call of the tool or its last message. */
function actionEntries(event: AgentEvent): readonly Entry[] {
  const action = objectOf(event['action']);
  const thought = messageOf({ ...event, source: 'agent' }, contentText(event['thought']));
  const before = thought === undefined ? [] : [{ ...thought, id: `${thought.id}/thought` }];
  if (action['kind'] !== 'FinishAction' && action['kind'] !== 'MessageAction')
    return [...before, toolOf(event)];
  const last = messageOf({ ...event, source: 'agent' }, textOf(action['message']));
  return last === undefined ? before : [...before, last];
}

function resultOf(event: AgentEvent): Pick<ToolEntry, 'output' | 'state'> | undefined {
  const observation = objectOf(event['observation']);
  switch (event['kind']) {
    case 'ObservationEvent': {
      const text = contentText(observation['content']) || textOf(observation['output']);
      const exit = observation['exit_code'];
      const isFailed =
        observation['is_error'] === true || (typeof exit === 'number' && exit !== 0 && exit !== -1);
      return { output: bounded(text), state: isFailed ? 'failed' : 'done' };
    }
    case 'AgentErrorEvent':
      return { output: bounded(textOf(event['error'])), state: 'failed' };
    case 'UserRejectObservation':
      return { output: bounded(textOf(event['rejection_reason'])), state: 'rejected' };
    default:
      return undefined;
  }
}

/** Changes of an agent's session that a person has to know of. */
function updateEntries(event: AgentEvent): readonly Entry[] {
  const value = textOf(event['value']);
  switch (event['key']) {
    case 'acp_session_lost':
      return [notice(event, `The agent could not open its session: ${value}`, true)];
    case 'acp_images_skipped':
      return [notice(event, value, true)];
    case 'acp_continued':
      return value === 'transcript'
        ? [notice(event, 'The agent continues in a new session, with what was said before.')]
        : [];
    default:
      return [];
  }
}

function entriesOfOne(event: AgentEvent): readonly Entry[] {
  switch (event['kind']) {
    case 'MessageEvent': {
      const { content } = objectOf(event['llm_message']);
      const message = messageOf(event, contentText(content), content);
      return message === undefined ? [] : [message];
    }
    case 'ActionEvent':
      return actionEntries(event);
    case 'ConversationErrorEvent': {
      const text = textOf(event['detail']) || textOf(event['code']) || 'The run has failed.';
      return [notice(event, text, true)];
    }
    case 'ConversationStateUpdateEvent':
      return updateEntries(event);
    case 'PauseEvent':
    case 'InterruptEvent':
      return [notice(event, 'The run was interrupted.')];
    default:
      return [];
  }
}

/**
 * The entries of events, oldest first. A result joins the call of its tool; one whose call is in an
 * older page has an entry of its own. Events that say nothing to a person have no entry.
 */
export function entriesOf(events: readonly AgentEvent[]): readonly Entry[] {
  const entries: Entry[] = [];
  const calls = new Map<string, number>();
  for (const event of events) {
    const call = textOf(event['tool_call_id']);
    const result = resultOf(event);
    if (result !== undefined) {
      const place = calls.get(call);
      const open = place === undefined ? undefined : entries[place];
      if (place !== undefined && open?.kind === 'tool') entries[place] = { ...open, ...result };
      else entries.push({ ...toolOf(event), ...result });
      continue;
    }
    entries.push(...entriesOfOne(event));
    if (event['kind'] === 'ActionEvent' && entries.at(-1)?.kind === 'tool')
      calls.set(call, entries.length - 1);
  }
  return entries;
}

const roles = { user: 'You', agent: 'Agent' } as const;

const fenced = (text: string): string => {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
};

/** The entries as Markdown, for the clipboard. */
export const markdownOf = (entries: readonly Entry[]): string =>
  entries
    .map((entry) => {
      if (entry.kind === 'message') return `**${roles[entry.source]}**\n\n${entry.text}`;
      if (entry.kind === 'notice') return `_${entry.text}_`;
      const parts = [entry.input, entry.output].filter((text) => text !== '').map(fenced);
      return [`**${entry.tool}**: ${entry.summary}`, ...parts].join('\n\n');
    })
    .join('\n\n');
