import { createHash } from 'node:crypto';
import * as z from 'zod/mini';
import {
  agentMessage,
  stateEvent,
  textContent,
  type AcpToolCall,
  type EventBody,
  type StateUpdate,
} from '../events.ts';
import type { Said } from '../live-activity.ts';
import {
  marker,
  maskJson,
  maskText,
  maskUniquely,
  maxDepth,
  noNeedles,
  StreamMask,
  type Needles,
} from '../mask.ts';
import {
  bothOf,
  firstSaid,
  isPartOf,
  withBeside,
  withoutPlaces,
  bounded,
  maxDataCharacters,
  hasOmission,
  isProgress,
  outputOf,
  sizeOf,
} from './tool-calls.ts';

/** Maximum characters of one event's text; a longer message becomes several events. */
const maxTextCharacters = 100_000;
const maxTitleCharacters = 1_000;
const maxIdCharacters = 200;
/** Maximum characters, as JSON, of an update of an unknown type. */
const maxUnknownCharacters = 10_000;
/** Maximum tool calls whose state is kept, in addition to those that wait for their event. */
const maxKept = 200;
const maxPlanEntries = 100;

interface Update {
  readonly sessionUpdate: string;
  readonly [field: string]: unknown;
}

/** A part of a tool call as the agent has sent it, before masking and truncation. */
interface RawPart {
  /** SHA-256 of the part as JSON. */
  readonly hash: string;
  /** Whether the part in events is truncated, or differs from what the agent has sent. */
  readonly isShortened: boolean;
}
/** Parts that decide what a tool call does; undefined if the agent did not send the part. */
type RawParts = Readonly<Record<'title' | 'kind' | 'input' | 'content', RawPart | undefined>> & {
  /** Title with secrets masked. The call's event contains only the beginning of the title. */
  readonly shownTitle: string | undefined;
};

export interface AskedCall {
  readonly call: AcpToolCall;
  readonly title: string;
  /** Null if absent. `withBeside` has added the call's content and locations as fields. */
  readonly input: unknown;
  /** Hash of what the tool call does, computed before masking and truncation. */
  readonly call_hash: string;
  /** False if the agent or the server has omitted a part of the call. */
  readonly complete: boolean;
  readonly secret_marker: string;
}

const sha256 = (value: unknown): string =>
  createHash('sha256').update(JSON.stringify(value)).digest('hex');

const rawPart = (raw: unknown, { isShortened = false } = {}): RawPart | undefined =>
  raw === undefined || raw === null
    ? undefined
    : { hash: sha256(raw), isShortened: isShortened || !isExact(raw) };

/** False if the JSON parser may have rounded a number, or a level is too deep for `maskJson`. */
function isExact(value: unknown, depth = 0): boolean {
  if (typeof value === 'number')
    return Number.isInteger(value) ? Number.isSafeInteger(value) : Number.isFinite(value);
  if (typeof value !== 'object' || value === null) return true;
  return depth < maxDepth && Object.values(value).every((each) => isExact(each, depth + 1));
}

const title = z.nullish(z.string());
export const toolCallSchema = z.object({
  toolCallId: z.string().check(z.maxLength(maxIdCharacters)),
  title,
  kind: title,
  status: title,
  rawInput: z.optional(z.unknown()),
  rawOutput: z.optional(z.unknown()),
  content: z.optional(z.unknown()),
  locations: z.optional(z.unknown()),
});
export type ToolCallParts = z.output<typeof toolCallSchema>;

/** Statuses of the protocol, which are never masked, even if a secret has the same value. */
const statuses: ReadonlySet<string> = new Set(['pending', 'in_progress', 'completed', 'failed']);
const ended: ReadonlySet<string> = new Set(['completed', 'failed']);

/** Masks a tool call. Escapes markers that the agent itself sent, so they do not look masked. */
export function maskedParts(parts: ToolCallParts, needles: Needles): ToolCallParts {
  const { toolCallId, title: named, kind, status, rawInput, rawOutput, content } = parts;
  const shown = (text: string | null | undefined) =>
    text == null ? text : maskUniquely(text, needles);
  return {
    toolCallId: maskText(toolCallId, needles),
    title: shown(named),
    kind: shown(kind),
    status: status != null && statuses.has(status) ? status : shown(status),
    rawInput: maskJson(rawInput, needles, maskUniquely),
    rawOutput: maskJson(rawOutput, needles, maskUniquely),
    content: maskJson(content, needles, maskUniquely),
  };
}

const chunk = z.object({ content: z.object({ type: z.string(), text: z.optional(z.string()) }) });
const plan = z.object({
  entries: z.array(z.object({ content: z.string(), status: z.string(), priority: z.string() })),
});

/** Updates that are not recorded: the log has the user's messages; only editors need the others. */
const ignored: ReadonlySet<string> = new Set([
  'user_message_chunk',
  'available_commands_update',
  'current_mode_update',
  'config_option_update',
  'session_info_update',
  'usage_update',
]);

export interface RecorderOptions {
  readonly needles?: () => Needles;
  /** Receives the text that each chunk adds to a message or thought, with secrets masked. */
  readonly onText?: (said: Said) => void;
  /** Receives the whole output of a running tool call so far, with secrets unmasked. */
  readonly onOutput?: (callId: string, output: string) => void;
}

type Segment =
  | { readonly kind: 'message' | 'thought'; text: string }
  | { readonly kind: 'tool'; readonly id: string }
  | { readonly kind: 'event'; readonly event: EventBody };

/**
 * Converts the updates of an ACP session to events with secrets masked. The chunks of a message
 * become one event. The updates of a tool call since the last `take` become one event with the last
 * state of the call. The class does no I/O and reads no clock.
 */
export class UpdateRecorder {
  readonly #needles: () => Needles;
  readonly #onText: (said: Said) => void;
  readonly #onOutput: (callId: string, output: string) => void;
  readonly #stream = new StreamMask();
  /** Kind of the current text. `#stream` withholds an end of the text that may begin a secret. */
  #saying: Said['kind'] = 'message';
  readonly #calls = new Map<string, AcpToolCall>();
  readonly #raw = new WeakMap<AcpToolCall, RawParts>();
  readonly #pending = new Set<string>();
  /** Size of the output in the last event of each tool call, in characters of JSON. */
  readonly #logged = new WeakMap<AcpToolCall, number>();
  /** Ids of tool calls whose state was deleted before they ended. */
  readonly #forgotten = new Set<string>();
  #segments: Segment[] = [];
  #size = 0;

  constructor({
    needles = () => noNeedles,
    onText = () => undefined,
    onOutput = () => undefined,
  }: RecorderOptions = {}) {
    this.#needles = needles;
    this.#onText = onText;
    this.#onOutput = onOutput;
  }

  /** Approximate number of characters that `take` has not returned yet. */
  get size(): number {
    return this.#size;
  }

  /** Whether `take` would return an event. With `isOver`, an unfinished message counts. */
  hasEvents(isOver: boolean): boolean {
    return this.#segments.length > (isOver || !this.#isGrowing ? 0 : 1);
  }

  /** Whether the last segment is a message or thought that the next chunk may continue. */
  get #isGrowing(): boolean {
    const last = this.#segments.at(-1);
    return last !== undefined && 'text' in last;
  }

  /**
   * Adds an update as the agent has sent it, even an invalid one. Returns `event` if it ends the
   * current message or thought, and `output` if it only extends the output of a tool call.
   */
  add(given: Update): 'text' | 'output' | 'event' | 'ignored' {
    const { sessionUpdate } = given;
    if (ignored.has(sessionUpdate)) return 'ignored';
    if (sessionUpdate === 'agent_message_chunk' || sessionUpdate === 'agent_thought_chunk') {
      const { data } = chunk.safeParse(given);
      if (data !== undefined) {
        const kind = sessionUpdate === 'agent_message_chunk' ? 'message' : 'thought';
        const text = data.content.text ?? `[${data.content.type}]`;
        this.#say(kind, text);
        return 'text';
      }
    }
    if (sessionUpdate === 'tool_call_update' && this.#grows(given)) return 'output';
    this.settle();
    const needles = this.#needles();
    if (sessionUpdate === 'tool_call' || sessionUpdate === 'tool_call_update') {
      const { data } = toolCallSchema.safeParse(given);
      if (data !== undefined) {
        this.#call(data, sessionUpdate === 'tool_call');
        return 'event';
      }
    }
    const { data } = sessionUpdate === 'plan' ? plan.safeParse(given) : {};
    const entries = data?.entries.slice(0, maxPlanEntries).map((one) => shownEntry(one, needles));
    this.#push(
      entries === undefined
        ? { key: 'acp_update', value: bounded(maskJson(given, needles), maxUnknownCharacters) }
        : { key: 'plan', value: entries },
    );
    return 'event';
  }

  /** Adds the withheld end of the current text. Called when no further chunk continues the text. */
  settle(): void {
    this.#grow(this.#saying, this.#stream.end(this.#needles()));
  }

  /**
   * Merges parts of a tool call, as the agent has sent them, into the known state of the call. With
   * `isNew`, the id of an ended call begins another call, because some models use ids again.
   */
  merge(given: ToolCallParts, { isNew = false } = {}): AcpToolCall {
    const update = maskedParts(given, this.#needles());
    const last = this.#calls.get(update.toolCallId);
    const known = isNew && last !== undefined && ended.has(last.status) ? undefined : last;
    const { title: named, kind, status, rawInput, rawOutput, content } = update;
    const call: AcpToolCall = {
      kind: 'ACPToolCallEvent',
      source: 'agent',
      tool_call_id: update.toolCallId,
      title: (named ?? known?.title ?? 'tool').slice(0, maxTitleCharacters),
      status: (status ?? known?.status ?? 'pending').slice(0, maxIdCharacters),
      tool_kind: (kind ?? known?.tool_kind ?? 'other').slice(0, maxIdCharacters),
      raw_input: bounded(rawInput) ?? known?.raw_input ?? null,
      raw_output: bounded(rawOutput) ?? known?.raw_output ?? null,
      content: bounded(content) ?? known?.content ?? null,
      is_error: status === 'failed' || (status == null && known?.is_error === true),
    };
    const raw = known && this.#raw.get(known);
    this.#raw.set(call, {
      title:
        rawPart(given.title, { isShortened: (named ?? '').length > maxDataCharacters }) ??
        raw?.title,
      shownTitle: named?.slice(0, maxDataCharacters) ?? raw?.shownTitle,
      kind:
        rawPart(given.kind, { isShortened: (kind ?? '').length > maxIdCharacters }) ?? raw?.kind,
      input:
        rawPart(given.rawInput, { isShortened: (rawInput ?? null) !== call.raw_input }) ??
        raw?.input,
      content:
        rawPart(withoutPlaces(given.content), {
          isShortened: (content ?? null) !== call.content,
        }) ?? raw?.content,
    });
    this.#calls.delete(update.toolCallId);
    this.#calls.set(update.toolCallId, call);
    const [oldest = ''] = this.#calls.keys();
    if (this.#calls.size > maxKept && !this.#pending.has(oldest)) this.#forget(oldest);
    return call;
  }

  /**
   * Merges a permission request into its call. The result has the inputs of the earlier updates and
   * of the request, because some requests repeat only a part. `call_hash` covers all unmasked parts
   * except ids of terminals, so calls that differ only in masked secrets have different hashes.
   */
  ask(given: ToolCallParts): AskedCall {
    const needles = this.#needles();
    const { toolCallId, rawInput, content } = maskedParts(given, needles);
    const known = this.#calls.get(toolCallId);
    const before = known && this.#raw.get(known);
    const call = this.merge(given);
    const raw = this.#raw.get(call);
    const reported = firstSaid(known?.raw_input, known?.content);
    const locations = maskJson(given.locations, needles, maskUniquely);
    const asked = firstSaid(rawInput, content);
    const reportedPart =
      firstSaid(known?.raw_input) === undefined ? before?.content : before?.input;
    const givenContent = withoutPlaces(given.content);
    const askedPart = rawPart(firstSaid(given.rawInput, givenContent));
    const isRepeated = askedPart?.hash === reportedPart?.hash || isPartOf(asked, reported);
    const input = asked === undefined || isRepeated ? reported : bothOf(reported, asked);
    const shown = bounded(input) ?? null;
    const beside = {
      '(content)': [known?.content, content].map(withoutPlaces),
      '(locations)': [locations],
    };
    // `complete` also depends on the title, because some agents send the command only in the title.
    const parts = [raw?.title, raw?.kind, reportedPart, askedPart];
    const added = [given.rawInput, givenContent, given.locations].map((part) => rawPart(part));
    const sent = [raw?.title, raw?.kind, before?.input, before?.content, ...added];
    const isOmitted = hasOmission({
      title: given.title ?? call.title,
      kind: call.tool_kind,
      locations: given.locations,
      inputs: [known?.raw_input, given.rawInput],
      contents: [known?.content, given.content],
    });
    const title = raw?.shownTitle ?? call.title;
    return {
      call,
      title,
      input: withBeside(shown, title, beside),
      call_hash: sha256(sent.map((part) => part?.hash ?? null)),
      complete:
        !isOmitted &&
        !this.#forgotten.has(toolCallId) &&
        shown === (input ?? null) &&
        parts.every((part) => part?.isShortened !== true),
      secret_marker: marker,
    };
  }

  /** Returns the events since the last call. Without `isOver`, an unfinished message remains. */
  take(isOver: boolean): readonly EventBody[] {
    if (isOver) this.settle();
    const growing = isOver || !this.#isGrowing ? undefined : this.#segments.pop();
    const segments = this.#segments;
    this.#segments = growing === undefined ? [] : [growing];
    this.#size = growing !== undefined && 'text' in growing ? growing.text.length : 0;
    this.#pending.clear();
    const events = segments.flatMap((segment) => this.#eventOf(segment) ?? []);
    for (const id of this.#calls.keys()) if (this.#calls.size > maxKept) this.#forget(id);
    return events;
  }

  /** Deletes a call's state. If the call has not ended, its later requests are not `complete`. */
  #forget(id: string): void {
    if (!ended.has(this.#calls.get(id)?.status ?? '')) this.#forgotten.add(id);
    this.#calls.delete(id);
  }

  #eventOf(segment: Segment): EventBody | undefined {
    switch (segment.kind) {
      case 'message':
        return agentMessage(segment.text);
      case 'thought':
        return stateEvent({ key: 'thought', value: textContent(segment.text) });
      case 'tool':
        return this.#calls.get(segment.id);
      case 'event':
        return segment.event;
    }
  }

  #say(kind: Said['kind'], text: string): void {
    if (kind !== this.#saying) this.settle();
    this.#saying = kind;
    this.#grow(kind, this.#stream.push(text, this.#needles()));
  }

  #grow(kind: Said['kind'], text: string): void {
    if (text === '') return;
    this.#onText({ kind, text });
    let rest = text;
    while (rest !== '') {
      const last = this.#segments.at(-1);
      const isOpen = last?.kind === kind && last.text.length < maxTextCharacters;
      const room = maxTextCharacters - (isOpen ? last.text.length : 0);
      if (isOpen) last.text += rest.slice(0, room);
      else this.#segments.push({ kind, text: rest.slice(0, room) });
      rest = rest.slice(room);
    }
    this.#size += text.length;
  }

  /** Adds an update that only extends the output of a call. Returns false for any other update. */
  #grows(given: Update): boolean {
    const { data } = toolCallSchema.safeParse(given);
    const id = maskText(data?.toolCallId ?? '', this.#needles());
    const known = this.#calls.get(id);
    if (data === undefined || known === undefined) return false;
    const output = ended.has(data.status ?? known.status) ? '' : outputOf(data);
    if (output !== '') this.#onOutput(id, output);
    const logged = this.#logged.get(known) ?? 0;
    if (!isProgress(data, known, logged)) return false;
    this.#logged.set(this.merge(data), logged);
    return true;
  }

  #call(update: ToolCallParts, isNew: boolean): void {
    const call = this.merge(update, { isNew });
    this.#logged.set(call, sizeOf(update));
    this.#size += JSON.stringify(call).length;
    const id = call.tool_call_id;
    if (this.#pending.has(id)) return;
    this.#pending.add(id);
    this.#segments.push({ kind: 'tool', id });
  }

  #push(update: StateUpdate): void {
    const event = stateEvent(update);
    this.#segments.push({ kind: 'event', event });
    this.#size += JSON.stringify(event).length;
  }
}

const shownEntry = (
  { content, status, priority }: z.output<typeof plan>['entries'][number],
  needles: Needles,
) => ({
  content: maskText(content, needles).slice(0, maxTitleCharacters),
  status: maskText(status, needles).slice(0, maxIdCharacters),
  priority: maskText(priority, needles).slice(0, maxIdCharacters),
});
