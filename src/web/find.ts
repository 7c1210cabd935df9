import { signal } from '@preact/signals';
import { messageOf } from './api.ts';
import { entriesOf, idOf, maxTextLength, type AgentEvent, type Entry } from './entries.ts';
import type { History } from './history.ts';

/** An event that has a text. */
export interface Hit {
  /** The id of the event. */
  readonly id: string;
  /** What is around the first place of the text, and the text as the event has it. */
  readonly before: string;
  readonly match: string;
  readonly after: string;
  /** Whether the entry of the event shows the place; it shows a part of a long text. */
  readonly isShown: boolean;
}

/** Maximum hits of one search. */
export const maxHits = 1_000;
const pageSize = 100;
/** Maximum characters of a hit on each side of its text. */
const maxAround = 60;

/** Finds a text as it is, in small and capital letters. */
export const patternOf = (text: string, flags = ''): RegExp =>
  new RegExp(text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`), `iu${flags}`);

const shownTexts = (entry: Entry): readonly string[] => {
  if (entry.kind === 'tool') return [entry.summary, entry.input, entry.output, entry.tool];
  return entry.kind === 'folded' ? [entry.name, entry.text] : [entry.text];
};

/** All texts in a value but images. */
function* textsIn(value: unknown): Generator<string> {
  if (typeof value === 'string') {
    if (!value.startsWith('data:')) yield value;
  } else if (typeof value === 'object' && value !== null)
    for (const part of Object.values(value)) yield* textsIn(part);
}

function hitOf(id: string, text: string, pattern: RegExp, isShown: boolean): Hit | undefined {
  const found = pattern.exec(text);
  if (found === null) return undefined;
  const [match] = found;
  const end = found.index + match.length;
  const start = Math.max(0, found.index - maxAround);
  return {
    id,
    before: (start > 0 ? '…' : '') + text.slice(start, found.index),
    match,
    after: text.slice(end, end + maxAround) + (end + maxAround < text.length ? '…' : ''),
    isShown,
  };
}

/** Pure. The first place of a text in an event that has an entry; undefined: it has none. */
export function hitIn(event: AgentEvent, pattern: RegExp): Hit | undefined {
  const id = idOf(event);
  const texts = entriesOf([event]).flatMap(shownTexts);
  for (const text of texts) {
    const hit = hitOf(id, text, pattern, true);
    if (hit !== undefined) return hit;
  }
  if (texts.every((text) => text.length <= maxTextLength)) return undefined;
  for (const text of textsIn(event)) {
    const hit = hitOf(id, text, pattern, false);
    if (hit !== undefined) return hit;
  }
  return undefined;
}

/**
 * A search for a text in all events of a conversation, oldest first. It keeps one page of events at
 * a time, and its hits.
 */
export class EventSearch {
  readonly hits = signal<readonly Hit[]>([]);
  readonly searched = signal(0);
  /** Number of all events; undefined where it is unknown. */
  readonly total = signal<number | undefined>(undefined);
  /** stopped: by a person, or by a problem. */
  readonly state = signal<'running' | 'stopped' | 'done'>('running');
  readonly problem = signal<string | undefined>(undefined);
  readonly text: string;
  readonly #history: History;
  readonly #pattern: RegExp;
  #aborter = new AbortController();
  /** Where the next page begins; undefined: with the first event; null: there is none. */
  #next: string | null | undefined;

  constructor(history: History, text: string) {
    this.#history = history;
    this.text = text;
    this.#pattern = patternOf(text);
    void this.#count();
    void this.resume();
  }

  /** Ends the search. Its hits stay. */
  stop(): void {
    this.#aborter.abort();
    if (this.state.peek() === 'running') this.state.value = 'stopped';
  }

  /** Continues where the search was stopped. */
  async resume(): Promise<void> {
    const aborter = new AbortController();
    this.#aborter = aborter;
    this.state.value = 'running';
    this.problem.value = undefined;
    try {
      while (this.#next !== null && this.hits.peek().length < maxHits) {
        const { signal: stopped } = aborter;
        const options = { order: 'oldest first', limit: pageSize, signal: stopped } as const;
        const { items, next_page_id: next } = await this.#history.page(this.#next, options);
        if (stopped.aborted) return;
        const found = items.flatMap((event) => hitIn(event, this.#pattern) ?? []);
        if (found.length > 0) this.hits.value = [...this.hits.peek(), ...found].slice(0, maxHits);
        this.searched.value += items.length;
        this.#next = next;
      }
      this.state.value = 'done';
    } catch (error) {
      if (aborter.signal.aborted) return;
      this.state.value = 'stopped';
      this.problem.value = messageOf(error);
    }
  }

  async #count(): Promise<void> {
    this.total.value = await this.#history.count().catch(() => undefined);
  }
}
