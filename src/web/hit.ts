import { entriesOf, idOf, maxTextLength, type AgentEvent, type Entry } from './entries.ts';

/** An event that has a text. */
export interface Hit {
  /** The id of the event. */
  readonly id: string;
  /** The surroundings of the first place of the text, and the text as the event has it. */
  readonly before: string;
  readonly match: string;
  readonly after: string;
  /** Whether the entry of the event shows the place; it shows a part of a long text. */
  readonly isShown: boolean;
}

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
