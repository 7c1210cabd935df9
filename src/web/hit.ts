import type { AgentEvent } from '../agent/event-kinds.ts';
import { entriesOf, idOf, maxTextLength, type Entry } from '../sentences/entries.ts';

export interface Hit {
  readonly id: string;
  /** The first match as the event contains it, and the text before and after the match. */
  readonly before: string;
  readonly match: string;
  readonly after: string;
  /** Whether the event's entry shows the match. An entry shows only a part of a long text. */
  readonly isShown: boolean;
}

/** Maximum characters of `before` and of `after`. */
const maxAround = 60;

/** Matches a text literally, ignoring case. */
export const patternOf = (text: string): RegExp =>
  new RegExp(text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`), 'iu');

export interface Surroundings {
  readonly before: string;
  readonly after: string;
}

/** Maximum characters to compare on each side, without white space. */
const maxCompared = 40;
const squeezed = (text: string): string => text.replaceAll(/[\s…]+/g, '');

/** Number of equal characters from the beginning, or from the end if `step` is -1. */
function commonLength(one: string, other: string, step: 1 | -1): number {
  const at = (text: string, place: number) => text.at(step === 1 ? place : -1 - place);
  let length = 0;
  while (length < maxCompared && length < one.length && at(one, length) === at(other, length))
    length++;
  return length;
}

/** Index of the match with the most similar surroundings; the first of equal ones. Pure. */
export function closestPlace(near: Surroundings, places: readonly Surroundings[]): number {
  const scores = places.map(
    ({ before, after }) =>
      commonLength(squeezed(before), squeezed(near.before), -1) +
      commonLength(squeezed(after), squeezed(near.after), 1),
  );
  return scores.indexOf(Math.max(...scores));
}

/** The parts of a search snippet before and after the text. Pure. */
export function surroundingsIn(snippet: string, text: string): Surroundings {
  const found = wordsPattern(text).exec(snippet);
  if (found === null) return { before: '', after: '' };
  const end = found.index + found[0].length;
  return { before: snippet.slice(0, found.index), after: snippet.slice(end) };
}

/** Matches the words of a text one after the other, ignoring case. */
export const wordsPattern = (text: string, flags = ''): RegExp =>
  new RegExp(
    text
      .trim()
      .split(/\s+/)
      .map((word) => patternOf(word).source)
      .join(String.raw`\s+`),
    `iu${flags}`,
  );

const shownTexts = (entry: Entry): readonly string[] => {
  if (entry.kind === 'tool') return [entry.summary, entry.input, entry.output, entry.tool];
  return entry.kind === 'folded' ? [entry.name, entry.text] : [entry.text];
};

/** All strings in a value, except data URLs of images. */
function* textsIn(value: unknown): Generator<string> {
  if (typeof value === 'string') {
    if (!value.startsWith('data:')) yield value;
  } else if (typeof value === 'object' && value !== null)
    for (const part of Object.values(value)) yield* textsIn(part);
}

function placeIn(text: string, pattern: RegExp): Omit<Hit, 'id' | 'isShown'> | undefined {
  const found = pattern.exec(text);
  if (found === null) return undefined;
  const [match] = found;
  const end = found.index + match.length;
  const start = Math.max(0, found.index - maxAround);
  return {
    before: (start > 0 ? '…' : '') + text.slice(start, found.index),
    match,
    after: text.slice(end, end + maxAround) + (end + maxAround < text.length ? '…' : ''),
  };
}

/** The first match in an event; undefined if there is none, or if the event has no entry. Pure. */
export function hitIn(event: AgentEvent, pattern: RegExp): Hit | undefined {
  const id = idOf(event);
  const texts = entriesOf([event]).flatMap(shownTexts);
  for (const text of texts) {
    const place = placeIn(text, pattern);
    if (place !== undefined) return { id, ...place, isShown: true };
  }
  if (texts.every((text) => text.length <= maxTextLength)) return undefined;
  for (const text of textsIn(event)) {
    const place = placeIn(text, pattern);
    if (place !== undefined) return { id, ...place, isShown: false };
  }
  return undefined;
}
