import { StringDecoder } from 'node:string_decoder';
import type { OutputListener } from './commands.ts';
import type { AgentEvent } from './events.ts';
import { copied, LiveTail, type TailPart } from './live-tail.ts';
import type { Needles } from './mask.ts';

/** Maximum texts at once; further ones replace the oldest. */
const maxItems = 8;

type WordsKind = 'message' | 'thought';

/** A text that grows, of which no event has the whole yet. */
export interface LiveItem extends TailPart {
  readonly id: string;
  readonly kind: 'output' | WordsKind;
  /** Null for a text that belongs to no tool call. */
  readonly tool_call_id: string | null;
  readonly elapsed_ms: number;
}

export interface LiveItems {
  readonly items: readonly LiveItem[];
  /** Names the end of each item; the next read begins there. */
  readonly cursor: string;
}

interface Output {
  readonly tail: LiveTail;
  /** The last whole text's length and end, where the agent sends the whole text each time. */
  readonly whole?: { readonly length: number; readonly end: string };
}

/** Maximum UTF-16 units by which a text is recognized as the beginning of a longer one. */
const comparedCharacters = 1_024;

const endedStatuses: ReadonlySet<string> = new Set(['completed', 'failed']);

/**
 * Texts that grow in a conversation, and that no event has yet: the output of running commands, and
 * the text that the agent writes. They are in memory only, and end with the process.
 */
export class LiveActivity {
  /** By the id of their tool call, oldest first. */
  readonly #outputs = new Map<string, Output>();
  #text: { readonly kind: WordsKind; readonly tail: LiveTail } | undefined;

  /** Returns a function that takes the output of a command, in the order of arrival. */
  begin(callId: string): OutputListener {
    const tail = new LiveTail();
    // A chunk may end within a character, which the next chunk of the same stream continues.
    const decoders = { stdout: new StringDecoder('utf8'), stderr: new StringDecoder('utf8') };
    this.#keep(callId, { tail });
    return (chunk, stream) => tail.push(decoders[stream].write(chunk));
  }

  /** Takes the whole output of a call so far; one that does not continue the last is another text. */
  replace(callId: string, whole: string): void {
    const known = this.#outputs.get(callId);
    const { length = 0, end = '' } = known?.whole ?? {};
    const continues = whole.slice(Math.max(length - comparedCharacters, 0), length) === end;
    // A text that does not continue the last one may be a later part of the same output.
    const isContinued = known !== undefined;
    const tail = known !== undefined && continues ? known.tail : new LiveTail({ isContinued });
    tail.push(whole.slice(continues ? length : 0));
    this.#keep(callId, {
      tail,
      whole: { length: whole.length, end: copied(whole.slice(-comparedCharacters)) },
    });
  }

  /** Forgets the output of a call whose result is an event now. */
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

  /** Returns what is new since a cursor. Unknown texts of the cursor are ignored. */
  read(cursor: string, needles: Needles): LiveItems {
    const ends = endsOf(cursor);
    const itemOf = (tail: LiveTail, about: Pick<LiveItem, 'kind' | 'tool_call_id'>): LiveItem => ({
      ...{ id: tail.id, ...about, elapsed_ms: tail.elapsedMs },
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
