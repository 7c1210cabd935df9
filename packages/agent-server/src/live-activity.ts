import { StringDecoder } from 'node:string_decoder';
import type { OutputListener } from './commands.ts';
import { type AgentEvent, eventTime } from './events.ts';
import { type Needles, maskPart, maskText, noNeedles } from './mask.ts';
import { randomBytes, randomUUID } from 'node:crypto';

/** Maximum length of a LiveTail in UTF-16 units. A reader that is further behind misses text. */
export const maxTailCharacters = 64 * 1024;

/** Copies a part of a text, so that the engine can free the larger text that contains it. */
const copied = (part: string): string => Buffer.from(part, 'utf16le').toString('utf16le');

interface TailPart {
  /** Position where the part begins in the whole text, in UTF-16 units. */
  readonly from: number;
  /** Position after the part, from which the same reader reads the next part. */
  readonly end: number;
  /** The part, with secrets replaced by markers. */
  readonly text: string;
}

/** The end of a growing text, in bounded memory. Secrets are masked only when the text is read. */
export class LiveTail {
  readonly id = randomBytes(9).toString('base64url');
  readonly #startedMs = performance.now();
  readonly #isContinued: boolean;
  #parts: string[] = [];
  #kept = 0;
  #end = 0;

  /** @param isContinued Whether the text continues another one, so it may begin within a secret. */
  constructor({ isContinued = false }: { readonly isContinued?: boolean } = {}) {
    this.#isContinued = isContinued;
  }

  get elapsedMs(): number {
    return Math.round(performance.now() - this.#startedMs);
  }

  push(text: string): void {
    if (text === '') return;
    const part = text.length > maxTailCharacters ? text.slice(-maxTailCharacters) : text;
    this.#parts.push(copied(part));
    this.#kept += part.length;
    this.#end += text.length;
    // `#compact` runs rarely, so each character is copied once or twice, however small the parts.
    if (this.#kept > 2 * maxTailCharacters || this.#parts.length > 4_096) this.#compact();
  }

  /**
   * Returns the text from position `after`, or from the first position that is kept. Withholds an
   * end that may begin a secret, so that no secret is split over two parts.
   */
  read(after: number, needles: Needles): TailPart {
    const text = this.#compact();
    const start = this.#end - text.length;
    const from = after >= start && after <= this.#end ? after : start;
    const part = maskPart(text, needles, {
      from: from - start,
      continued: this.#isContinued || start > 0,
    });
    return { from, end: start + part.to, text: part.text };
  }

  #compact(): string {
    const joined = this.#parts.join('');
    const isLonger = joined.length > maxTailCharacters;
    const text = isLonger ? copied(joined.slice(-maxTailCharacters)) : joined;
    this.#parts = [text];
    this.#kept = text.length;
    return text;
  }
}

/** Maximum number of concurrent outputs. A further output replaces the oldest. */
const maxItems = 8;

type WordsKind = 'message' | 'thought';

/** A growing text that no event contains completely yet. */
export interface LiveItem extends TailPart {
  readonly id: string;
  readonly kind: 'output' | WordsKind;
  /** Null for a text that belongs to no tool call. */
  readonly tool_call_id: string | null;
  readonly elapsed_ms: number;
}

export interface LiveItems {
  readonly items: readonly LiveItem[];
  /** Encodes the end of each item, where the next read begins. */
  readonly cursor: string;
}

interface Output {
  readonly tail: LiveTail;
  /** Length and end of the previous output, for agents that send the whole output each time. */
  readonly whole?: { readonly length: number; readonly end: string };
}

/** Number of UTF-16 units by which an output is recognized as the beginning of the next one. */
const comparedCharacters = 1_024;

const endedStatuses: ReadonlySet<string> = new Set(['completed', 'failed']);

/** Unfinished outputs of commands and texts of the agent. They are lost when the server ends. */
export class LiveActivity {
  /** Outputs by id of their tool call, oldest first. */
  readonly #outputs = new Map<string, Output>();
  #text: { readonly kind: WordsKind; readonly tail: LiveTail } | undefined;

  /** Returns a function that takes the output of a command, in the order of arrival. */
  begin(callId: string): OutputListener {
    const tail = new LiveTail();
    // A chunk may end within a character that the next chunk of the same stream continues.
    const decoders = { stdout: new StringDecoder('utf8'), stderr: new StringDecoder('utf8') };
    this.#keep(callId, { tail });
    return (chunk, stream) => tail.push(decoders[stream].write(chunk));
  }

  /** Takes a call's whole output so far. Begins a new text if the output is a different one. */
  replace(callId: string, whole: string): void {
    const known = this.#outputs.get(callId);
    const { length = 0, end = '' } = known?.whole ?? {};
    const continues = whole.slice(Math.max(length - comparedCharacters, 0), length) === end;
    // The new text may still be a later part of the same output, and begin within a secret.
    const isContinued = known !== undefined;
    const tail = known !== undefined && continues ? known.tail : new LiveTail({ isContinued });
    tail.push(whole.slice(continues ? length : 0));
    this.#keep(callId, {
      tail,
      whole: { length: whole.length, end: copied(whole.slice(-comparedCharacters)) },
    });
  }

  apply(event: AgentEvent): void {
    switch (event.kind) {
      case 'ACPToolCallEvent':
        if (endedStatuses.has(event.status)) this.#outputs.delete(event.tool_call_id);
        return;
      case 'ObservationEvent':
      case 'AgentErrorEvent':
      case 'UserRejectObservation':
        this.#outputs.delete(event.tool_call_id);
        return;
      default:
        return;
    }
  }

  say({ kind, text }: { readonly kind: WordsKind; readonly text: string }): void {
    if (this.#text?.kind !== kind) this.#text = { kind, tail: new LiveTail() };
    this.#text.tail.push(text);
  }

  endText(): void {
    this.#text = undefined;
  }

  clear(): void {
    this.#outputs.clear();
    this.endText();
  }

  /** Returns the texts after a cursor. Ids of unknown texts in the cursor are ignored. */
  read(cursor: string, needles: Needles): LiveItems {
    const ends = endsOf(cursor);
    const itemOf = (tail: LiveTail, about: Pick<LiveItem, 'kind' | 'tool_call_id'>): LiveItem => ({
      id: tail.id,
      ...about,
      elapsed_ms: tail.elapsedMs,
      ...tail.read(ends.get(tail.id) ?? 0, needles),
    });
    const items = [...this.#outputs].map(([tool_call_id, { tail }]) =>
      itemOf(tail, { kind: 'output', tool_call_id }),
    );
    if (this.#text !== undefined)
      items.push(itemOf(this.#text.tail, { kind: this.#text.kind, tool_call_id: null }));
    return { items, cursor: items.map(({ id, end }) => `${id}:${end}`).join(',') };
  }

  #keep(callId: string, output: Output): void {
    this.#outputs.set(callId, output);
    const [oldest = ''] = this.#outputs.keys();
    if (this.#outputs.size > maxItems) this.#outputs.delete(oldest);
  }
}

const endsOf = (cursor: string): ReadonlyMap<string, number> =>
  new Map(
    cursor
      .split(',', maxItems + 1)
      .map((part) => part.split(':', 2))
      .map(([id = '', end]) => [id, Number.isSafeInteger(Number(end)) ? Number(end) : 0]),
  );

export interface Said {
  readonly kind: 'message' | 'thought';
  readonly text: string;
}

/** New text for connected clients, as in the OpenHands protocol. The log does not store it. */
export interface StreamingDelta {
  readonly kind: 'StreamingDeltaEvent';
  readonly id: string;
  readonly timestamp: string;
  readonly source: 'agent';
  readonly content: string | null;
  readonly reasoning_content: string | null;
}

const intervalMs = 250;
/** Maximum characters of a StreamingDelta. Clients get the rest of the text with its event. */
const maxCharacters = 100_000;

/** Sends the growing text to connected clients, and adds it to a LiveActivity for later reads. */
export class LiveText {
  readonly #listeners = new Set<(delta: StreamingDelta) => void>();
  #waiting: Record<Said['kind'], string> | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #needles: () => Needles;
  readonly #activity: LiveActivity;

  constructor(needles: () => Needles = () => noNeedles, activity = new LiveActivity()) {
    this.#needles = needles;
    this.#activity = activity;
  }

  /** Adds a listener. The returned function removes it. */
  subscribe(listener: (delta: StreamingDelta) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#forget();
    };
  }

  say({ kind, text }: Said): void {
    this.#activity.say({ kind, text });
    if (this.#listeners.size === 0) return;
    const waiting = (this.#waiting ??= { message: '', thought: '' });
    waiting[kind] += text.slice(0, maxCharacters - waiting[kind].length);
    this.#timer ??= setTimeout(() => this.#send(), intervalMs);
  }

  /** Sends the waiting text. Called before the event with this text is stored. */
  flush(): void {
    this.#activity.endText();
    this.#send();
  }

  output(callId: string, whole: string): void {
    this.#activity.replace(callId, whole);
  }

  #send(): void {
    const waiting = this.#waiting;
    this.#forget();
    if (waiting === undefined) return;
    const delta: StreamingDelta = {
      kind: 'StreamingDeltaEvent',
      id: randomUUID(),
      source: 'agent',
      timestamp: eventTime(Date.now() * 1000),
      content: this.#shown(waiting.message),
      reasoning_content: this.#shown(waiting.thought),
    };
    for (const listener of this.#listeners) listener(delta);
  }

  /** Masks again, because texts that were masked one by one may form a secret together. */
  #shown(text: string): string | null {
    return text === '' ? null : maskText(text, this.#needles());
  }

  /** Drops the waiting text, because no event will contain it. */
  drop(): void {
    this.#activity.endText();
    this.#forget();
  }

  #forget(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#waiting = undefined;
  }
}
