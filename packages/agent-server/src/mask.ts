/** Text that replaces a secret, as in the OpenHands protocol. */
export const marker = '<secret-hidden>';
/** Minimum characters of a secret to mask. Masking a shorter one would mangle unrelated texts. */
const minCharacters = 4;
/** Minimum characters of a secret's line to mask, because programs may print a secret by line. */
const minLineCharacters = 8;
/** Maximum depth at which `maskJson` keeps the structure. Deeper levels become a text of JSON. */
export const maxDepth = 200;
/** A marker in an unmasked text of the agent, with any number of escaping backslashes. */
const ownMarker = /<(\\*)secret-hidden>/g;

/** Secrets to mask, each as plain text and as it appears within JSON strings. */
export interface Needles {
  readonly texts: readonly string[];
}

export const noNeedles: Needles = { texts: [] };

/** Returns the secrets to mask: values of 4 or more characters, and their lines of 8 or more. */
export function needlesOf(values: Iterable<string>): Needles {
  const texts = new Set<string>();
  for (const value of values)
    for (const form of [value, value.trim(), ...linesOf(value)])
      if (form.length >= minCharacters)
        texts
          .add(form)
          .add(quoted(form))
          .add(quoted(quoted(form)));
  return texts.size === 0 ? noNeedles : { texts: [...texts] };
}

/** Returns the lines of a text, which `cat -n`, `sed` or `diff` print separately. */
function linesOf(value: string): readonly string[] {
  const lines = value.split(/[\r\n]+/);
  if (lines.length === 1) return [];
  return lines.map((line) => line.trim()).filter(({ length }) => length >= minLineCharacters);
}

const quoted = (text: string): string => JSON.stringify(text).slice(1, -1);

/** The part of a text from `start` (inclusive) to `end` (exclusive). */
interface Span {
  readonly start: number;
  readonly end: number;
}

/** Whether text was omitted before the text (`continued`) or after it (`continues`). */
export interface Edges {
  readonly continued?: boolean;
  readonly continues?: boolean;
}

/** Replaces needles, also those truncated at `edges`. Overlapping needles become one marker. */
export function maskText(text: string, needles: Needles, edges: Edges = {}): string {
  if (needles.texts.length === 0 || text === '') return text;
  const found = occurrences(text, needles);
  const tail = edges.continues === true ? unfinishedFrom(text, needles) : text.length;
  if (tail < text.length) found.push({ start: tail, end: text.length });
  const head = edges.continued === true ? remainderTo(text, needles) : 0;
  if (head > 0) found.push({ start: 0, end: head });
  return found.length === 0 ? text : rendered(text, merged(found));
}

/** Masks needles and escapes markers. Texts with equal results therefore differ only in needles. */
export const maskUniquely = (text: string, needles: Needles): string =>
  rendered(text, merged(occurrences(text, needles)), (part) =>
    part.replace(ownMarker, '<\\$1secret-hidden>'),
  );

/**
 * Replaces the needles in all texts and keys of a JSON value. A number that contains a needle
 * becomes a text. If keys become equal, the later ones get a number, so that no entry is lost.
 * Returns `value` itself if `maskText` has no needles.
 */
export function maskJson(
  value: unknown,
  needles: Needles,
  mask: (text: string, needles: Needles) => string = maskText,
  depth = 0,
): unknown {
  if (needles.texts.length === 0 && mask === maskText) return value;
  if (typeof value === 'string') return mask(value, needles);
  if (typeof value === 'number') {
    const text = String(value);
    const masked = mask(text, needles);
    return masked === text ? value : masked;
  }
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= maxDepth) return mask(JSON.stringify(value), needles);
  if (Array.isArray(value)) return value.map((each) => maskJson(each, needles, mask, depth + 1));
  const shown = new Map<string, unknown>();
  const numbers = new Map<string, number>();
  for (const [key, each] of Object.entries(value)) {
    const name = mask(key, needles);
    let free = name;
    for (let number = numbers.get(name) ?? 1; shown.has(free); numbers.set(name, number))
      free = `${name} (${++number})`;
    shown.set(free, maskJson(each, needles, mask, depth + 1));
  }
  return Object.fromEntries(shown);
}

/**
 * Masks a growing text from `from` to `to`, where the next call continues. Withholds an end of the
 * text that may begin a needle. If a needle extends across `from`, the previous call has masked it.
 */
export function maskPart(
  text: string,
  needles: Needles,
  { from, continued }: { readonly from: number; readonly continued: boolean },
): { readonly text: string; readonly to: number } {
  if (needles.texts.length === 0) return { text: text.slice(from), to: text.length };
  const to = Math.max(from, unfinishedFrom(text, needles));
  const found = occurrences(text, needles);
  const head = continued ? remainderTo(text, needles) : 0;
  if (head > 0) found.push({ start: 0, end: head });
  const spans = merged(found).filter(({ start, end }) => end > from && start < to);
  const [first] = spans;
  const shownFrom = first !== undefined && first.start < from ? Math.min(first.end, to) : from;
  const shown = rendered(
    text.slice(shownFrom, to),
    spans
      .filter(({ start }) => start >= from)
      .map(({ start, end }) => ({ start: start - shownFrom, end: Math.min(end, to) - shownFrom })),
  );
  return { text: shown, to };
}

/**
 * Masks a text that arrives in pieces. The joined results of all calls equal the masked whole text.
 * Each call returns everything except an end that may be the beginning of a needle.
 */
export class StreamMask {
  #held = '';
  /** Number of characters at the start of `#held` that an earlier call has already masked. */
  #masked = 0;

  push(piece: string, needles: Needles): string {
    if (needles.texts.length === 0 && this.#held === '') return piece;
    const text = this.#held + piece;
    return this.#pass(text, needles, unfinishedFrom(text, needles));
  }

  /** Returns the withheld text, because no further pieces follow. */
  end(needles: Needles): string {
    return this.#held === '' ? '' : this.#pass(this.#held, needles, this.#held.length);
  }

  /** Returns the masked text up to position `to`, and withholds the rest. */
  #pass(text: string, needles: Needles, to: number): string {
    const known = this.#masked;
    const found = occurrences(text, needles);
    if (known > 0) found.push({ start: 0, end: known });
    const spans = merged(found);
    const before = spans.filter(({ start }) => start < to || (start === 0 && known > 0));
    const last = before.at(-1);
    this.#held = text.slice(to);
    this.#masked = Math.max((last?.end ?? 0) - to, 0);
    const shown = rendered(
      text.slice(0, to),
      before.map(({ start, end }) => ({ start, end: Math.min(end, to) })),
    );
    // An earlier call has returned the marker of the needle at the beginning of this text.
    return known > 0 ? shown.slice(marker.length) : shown;
  }
}

function occurrences(text: string, { texts }: Needles): Span[] {
  const found: Span[] = [];
  for (const needle of texts)
    for (let at = text.indexOf(needle); at !== -1; at = text.indexOf(needle, at + 1))
      found.push({ start: at, end: at + needle.length });
  return found;
}

function merged(spans: readonly Span[]): readonly Span[] {
  const result: { start: number; end: number }[] = [];
  for (const { start, end } of [...spans].sort((one, other) => one.start - other.start)) {
    const last = result.at(-1);
    if (last !== undefined && start < last.end) last.end = Math.max(last.end, end);
    else result.push({ start, end });
  }
  return result;
}

function rendered(
  text: string,
  spans: readonly Span[],
  show: (part: string) => string = (part) => part,
): string {
  let from = 0;
  const parts = spans.map(({ start, end }) => {
    const part = text.slice(from, start);
    from = end;
    return show(part) + marker;
  });
  return parts.join('') + show(text.slice(from));
}

/** Returns the start of the longest suffix of a text that is a prefix of a needle. */
function unfinishedFrom(text: string, { texts }: Needles): number {
  let from = text.length;
  for (const needle of texts) {
    const first = needle.charAt(0);
    const earliest = Math.max(text.length - needle.length + 1, 0);
    for (let at = text.indexOf(first, earliest); at !== -1 && at < from;) {
      if (needle.startsWith(text.slice(at))) from = at;
      at = text.indexOf(first, at + 1);
    }
  }
  return from;
}

/** Returns the end of the longest prefix of a text that is a suffix of a needle. */
function remainderTo(text: string, { texts }: Needles): number {
  let to = 0;
  for (const needle of texts)
    for (let length = Math.min(needle.length - 1, text.length); length > to; length--)
      if (text.startsWith(needle.slice(-length))) to = length;
  return to;
}
