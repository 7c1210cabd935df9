import {
  contentText,
  eventKindOf,
  isEvent,
  isFailureCode,
  isLastMessage,
  listOf,
  objectOf,
  stateKindOf,
  textOf,
  type AgentEvent,
} from '../agent/event-kinds.ts';

interface EntryBase {
  readonly id: string;
  /** The agent's local time without a time zone; empty if the event has no time. */
  readonly time: string;
}
export interface MessageEntry extends EntryBase {
  readonly kind: 'message';
  readonly source: 'user' | 'agent';
  readonly text: string;
  /** Images as data URLs. */
  readonly images: readonly string[];
}
/** `lost`: the run ended without a result. `apart`: the result may be in a hidden event. */
export type ToolState = 'running' | 'done' | 'failed' | 'rejected' | 'lost' | 'apart';
export interface ToolEntry extends EntryBase {
  readonly kind: 'tool';
  readonly tool: string;
  /** One line that describes the call. */
  readonly summary: string;
  readonly input: string;
  readonly output: string;
  readonly state: ToolState;
  readonly call: string;
}
export interface NoticeEntry extends EntryBase {
  readonly kind: 'notice';
  readonly text: string;
  readonly isProblem: boolean;
}
/** Details that few users read, such as an event of an unknown kind. */
export interface FoldedEntry extends EntryBase {
  readonly kind: 'folded';
  readonly name: string;
  readonly text: string;
}
/** One event as a user reads it, or a tool call with its result. */
export type Entry = MessageEntry | ToolEntry | NoticeEntry | FoldedEntry;

/** Maximum UTF-16 units of each text of an entry, so that no event makes the page slow. */
export const maxTextLength = 20_000;
const maxSummaryLength = 200;
const maxImages = 20;

function bounded(text: string): string {
  const more = text.length - maxTextLength;
  return more <= 0 ? text : `${text.slice(0, maxTextLength)}\n… ${more} characters more`;
}

/** The beginning and the end of a text, because errors are at the end of an output. */
function ends(text: string): string {
  const more = text.length - maxTextLength;
  if (more <= 0) return text;
  const head = Math.floor(maxTextLength / 2);
  return `${text.slice(0, head)}\n… ${more} characters more …\n${text.slice(head + more)}`;
}

const firstLine = (text: string): string => {
  const line = text.trim().split('\n', 1)[0] ?? '';
  return line.length <= maxSummaryLength ? line : `${line.slice(0, maxSummaryLength)}…`;
};

/** Returns images inside the event only: loading others from their hosts would reveal the user. */
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

/** An empty message has no entry. */
function messageOf(event: AgentEvent, text: string, content?: unknown): readonly MessageEntry[] {
  const images = contentImages(content);
  if (text.trim() === '' && images.length === 0) return [];
  const source = event['source'] === 'user' ? 'user' : 'agent';
  return [{ ...baseOf(event), kind: 'message', source, text: bounded(text), images }];
}

const notice = (
  event: AgentEvent,
  text: string,
  { isProblem }: { readonly isProblem: boolean },
): NoticeEntry => ({ ...baseOf(event), kind: 'notice', text: bounded(text), isProblem });

const jsonOf = (value: unknown): string =>
  value === undefined || value === null || (Array.isArray(value) && value.length === 0)
    ? ''
    : JSON.stringify(value, undefined, 2);

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
    call: textOf(event['tool_call_id']),
  };
}

/** Entries for an agent's action: its thoughts, then the tool call or the last message. */
function actionEntries(event: AgentEvent): readonly Entry[] {
  const action = objectOf(event['action']);
  const own = { ...event, source: 'agent' };
  const before = messageOf({ ...own, id: `${idOf(event)}/thought` }, contentText(event['thought']));
  return isLastMessage(action['kind'])
    ? [...before, ...messageOf(own, textOf(action['message']))]
    : [...before, toolOf(event)];
}

function resultOf(event: AgentEvent): Pick<ToolEntry, 'output' | 'state'> | undefined {
  const observation = objectOf(event['observation']);
  switch (eventKindOf(event)?.result) {
    case 'observed': {
      // The action of this result is shown as the last message of the agent.
      if (observation['kind'] === 'FinishObservation') return undefined;
      const text = contentText(observation['content']) || textOf(observation['output']);
      const isFailed = observation['is_error'] === true || isFailureCode(observation['exit_code']);
      return { output: ends(text), state: isFailed ? 'failed' : 'done' };
    }
    case 'failed':
      return { output: ends(textOf(event['error'])), state: 'failed' };
    case 'rejected':
      return { output: bounded(textOf(event['rejection_reason'])), state: 'rejected' };
    case undefined:
      return undefined;
  }
}

/** The text of the `content` of an ACP tool call, or JSON if a part of it has no text. */
function acpContentText(content: unknown): string {
  const parts = listOf(content).filter((part) => objectOf(part)['type'] !== 'terminal');
  const texts = parts.map((part) => textOf(objectOf(objectOf(part)['content'])['text']));
  return texts.every((text) => text !== '') ? texts.join('\n') : jsonOf(parts);
}

const acpStates: ReadonlyMap<string, ToolState> = new Map([
  ['completed', 'done'],
  ['failed', 'failed'],
]);

/** A tool call of the Agent Client Protocol. Each event contains the latest state of the call. */
function acpToolOf(event: AgentEvent): ToolEntry {
  const { title, status, tool_kind: kind, raw_input: input, raw_output: output } = event;
  const command = textOf(objectOf(input)['command']);
  const given = textOf(input) || (isEvent(input) ? describe(input) : jsonOf(input));
  const content = acpContentText(event['content']);
  const state = acpStates.get(textOf(status)) ?? 'running';
  const shown = state === 'running' ? '' : textOf(output) || jsonOf(output) || content;
  return {
    ...baseOf(event),
    kind: 'tool',
    state,
    call: textOf(event['tool_call_id']),
    tool: textOf(kind) || 'tool',
    summary: firstLine(textOf(title) || command || given),
    input: bounded(given === '' && state === 'running' ? content : given),
    output: shown === given ? '' : ends(shown),
  };
}

/** Adds the fields of a later event to a tool call. */
const joined = (known: ToolEntry, news: ToolEntry): ToolEntry => ({
  id: known.id,
  time: known.time,
  kind: 'tool',
  call: known.call,
  tool: news.tool === 'tool' ? known.tool : news.tool,
  summary: news.summary === '' ? known.summary : news.summary,
  input: news.input === '' ? known.input : news.input,
  output: news.output === '' ? known.output : news.output,
  // If a user has rejected a call, the agent reports that the call has failed.
  state: known.state === 'rejected' || news.state === 'running' ? known.state : news.state,
});

const folded = (event: AgentEvent, name: string, value: unknown): FoldedEntry => ({
  ...baseOf(event),
  kind: 'folded',
  name,
  text: bounded(textOf(value) || jsonOf(value)),
});

/** Entries for changes of the agent's session that a user needs to know. */
function stateEntries(event: AgentEvent): readonly Entry[] {
  const state = stateKindOf(event);
  const value = state?.valueOf(event['value']);
  if (state === undefined || value === undefined) return [];
  return state.shown === 'folded'
    ? [folded(event, state.name ?? '', value)]
    : [notice(event, textOf(value), { isProblem: state.shown === 'problem' })];
}

function entriesOfOne(event: AgentEvent): readonly Entry[] {
  switch (eventKindOf(event)?.shown) {
    case 'message': {
      const { content } = objectOf(event['llm_message']);
      return messageOf(event, contentText(content), content);
    }
    case 'action':
      return actionEntries(event);
    case 'call':
      return [acpToolOf(event)];
    case 'failure': {
      const text = textOf(event['detail']) || textOf(event['code']) || 'The run has failed.';
      return [notice(event, text, { isProblem: true })];
    }
    case 'state':
      return stateEntries(event);
    case 'interruption':
      return [notice(event, 'The run was interrupted.', { isProblem: false })];
    case 'hidden':
      return [];
    case 'prompt':
      // The gateway withholds the prompt from readers of a link.
      return [
        folded(
          event,
          'System prompt',
          event['withheld'] === true
            ? 'Only the owner sees this.'
            : contentText([event['system_prompt']]),
        ),
      ];
    case undefined: {
      const { id: _id, timestamp: _time, kind, ...fields } = event;
      return [folded(event, textOf(kind) || 'Event', fields)];
    }
  }
}

/** Execution statuses in which no tool call runs. */
const ended: ReadonlySet<unknown> = new Set(['finished', 'error', 'stuck', 'idle']);

/**
 * The entries of events, oldest first. Later events of a tool call are added to its entry. A result
 * has its own entry if its call is on an older page. State that only programs read has no entry.
 */
export function entriesOf(events: readonly AgentEvent[]): readonly Entry[] {
  const entries: Entry[] = [];
  /** Indexes in `entries` of the calls whose result may still arrive, by call id. */
  const open = new Map<string, number>();
  /** Adds a state to the entry of its call, or adds a new entry. */
  const add = (call: string, news: ToolEntry): void => {
    const place = open.get(call);
    const known = place === undefined ? undefined : entries[place];
    // An agent may reuse the id of a call.
    const isOver = known?.kind === 'tool' && (known.state === 'done' || known.state === 'failed');
    const isOther = isOver && news.state === 'running';
    if (place !== undefined && known?.kind === 'tool' && !isOther)
      entries[place] = joined(known, news);
    else open.set(call, entries.push(news) - 1);
  };
  for (const event of events) {
    const call = textOf(event['tool_call_id']);
    const result = resultOf(event);
    if (result !== undefined) add(call, { ...toolOf(event), ...result });
    else {
      const isEnd = event['key'] === 'execution_status' && ended.has(event['value']);
      if (isEnd) {
        for (const place of open.values()) {
          const known = entries[place];
          if (known?.kind === 'tool' && known.state === 'running')
            entries[place] = { ...known, state: 'lost' };
        }
        open.clear();
      }
      for (const entry of entriesOfOne(event))
        if (entry.kind === 'tool') add(call, entry);
        else entries.push(entry);
    }
  }
  return entries;
}

const roles = { user: 'You', agent: 'Agent' } as const;

const fenced = (text: string): string => {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
};

export const markdownOf = (entries: readonly Entry[]): string =>
  entries
    .map((entry) => {
      if (entry.kind === 'message') return `**${roles[entry.source]}**\n\n${entry.text}`;
      if (entry.kind === 'notice') return `_${entry.text}_`;
      if (entry.kind === 'folded') return `**${entry.name}**\n\n${fenced(entry.text)}`;
      const parts = [entry.input, entry.output].filter((text) => text !== '').map(fenced);
      return [`**${entry.tool}**: ${entry.summary}`, ...parts].join('\n\n');
    })
    .join('\n\n');

export interface PlanStep {
  readonly text: string;
  readonly state: 'done' | 'doing' | 'open';
}

interface Plan {
  readonly steps: readonly PlanStep[];
  /** Number of steps that are left out. */
  readonly more: number;
}

const maxSteps = 100;
const maxStepLength = 500;

/** Step states of the Agent Client Protocol and of OpenHands. */
const states: ReadonlyMap<string, PlanStep['state']> = new Map([
  ['completed', 'done'],
  ['done', 'done'],
  ['in_progress', 'doing'],
]);

function stepOf(given: unknown): PlanStep {
  const { content, title, status } = objectOf(given);
  const text = textOf(content) || textOf(title);
  return {
    text: text.length > maxStepLength ? `${text.slice(0, maxStepLength)}…` : text,
    state: states.get(textOf(status)) ?? 'open',
  };
}

function listIn(event: AgentEvent): unknown {
  if (event['key'] === 'plan') return event['value'];
  const { kind, command, task_list: tasks } = objectOf(event['action'] ?? event['observation']);
  const isPlan = kind === 'TaskTrackerObservation' || command === 'plan';
  return isPlan && textOf(kind).startsWith('TaskTracker') ? tasks : undefined;
}

/** The plan of the agent, from the last event that contains one. */
export function planOf(events: readonly AgentEvent[]): Plan {
  const last = events.findLast((event) => Array.isArray(listIn(event)));
  const list = listOf(last && listIn(last)).filter(isEvent);
  return { steps: list.slice(0, maxSteps).map(stepOf), more: Math.max(0, list.length - maxSteps) };
}

const timeOf = (event: AgentEvent): number => Date.parse(textOf(event['timestamp']));
const statusOf = (event: AgentEvent): unknown =>
  event['key'] === 'execution_status' ? event['value'] : undefined;

/** Duration of the last run in milliseconds; undefined if the events do not show it. */
export function lastRunMsOf(events: readonly AgentEvent[]): number | undefined {
  const begin = events.findLastIndex((event) => statusOf(event) === 'running');
  const [first, ...rest] = begin < 0 ? [] : events.slice(begin);
  const end = rest.find((event) => statusOf(event) !== undefined);
  if (first === undefined || end === undefined) return undefined;
  const ms = timeOf(end) - timeOf(first);
  return ms >= 0 ? ms : undefined;
}
