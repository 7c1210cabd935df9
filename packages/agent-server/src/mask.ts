/** The text in the place of a secret, as the protocol has it. */
export const marker = '<secret-hidden>';
/** Minimum characters of a value to hide; a shorter one would mangle unrelated texts. */
const minCharacters = 4;
/** Minimum characters of a line of a value; programs show parts of a text line by line. */
const minLineCharacters = 8;
/** Maximum levels of a value whose texts are masked one by one; deeper ones become JSON. */
export const maxDepth = 200;
/** The marker in a text of the agent, with the backslashes of an escaped one. */
const ownMarker = /<(\\*)secret-hidden>/g;

/** Texts to hide, each with the forms that it has within JSON. */
export interface Needles {
  readonly texts: readonly string[];
}

export const noNeedles: Needles = { texts: [] };

/**
 * Returns the texts to hide for values: each value, and each line of one of several lines. Values
 * below four characters and lines below eight are left out.
 */
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

/** The lines of a text that `cat -n`, `sed` or `diff` show alone. */
function linesOf(value: string): readonly string[] {
  const lines = value.split(/[\r\n]+/);
  if (lines.length === 1) return [];
  return lines.map((line) => line.trim()).filter(({ length }) => length >= minLineCharacters);
}

/** The form of a text within a string of JSON. */
const quoted = (text: string): string => JSON.stringify(text).slice(1, -1);

/** The part of a text from `start` to before `end`. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/** Edges of a text at which a part of it was omitted. */
export interface Edges {
  readonly continued?: boolean;
  readonly continues?: boolean;
}

/**
 * Replaces each occurrence of a needle; overlapping ones become one marker. At an edge where the
 * text continues elsewhere, a part of a needle is replaced as well.
 */
export function maskText(text: string, needles: Needles, edges: Edges = {}): string {
  if (needles.texts.length === 0 || text === '') return text;
  const found = occurrences(text, needles);
  const tail = edges.continues === true ? unfinishedFrom(text, needles) : text.length;
  if (tail < text.length) found.push({ start: tail, end: text.length });
  const head = edges.continued === true ? remainderTo(text, needles) : 0;
  if (head > 0) found.push({ start: 0, end: head });
  return found.length === 0 ? text : rendered(text, merged(found));
}

/**
 * Replaces each occurrence of a needle, and puts a backslash behind the `<` of each marker that the
 * text itself has. Two texts with the same result differ in needles alone.
 */
export const maskUniquely = (text: string, needles: Needles): string =>
  rendered(text, merged(occurrences(text, needles)), (part) =>
    part.replace(ownMarker, '<\\$1secret-hidden>'),
  );

/**
 * Replaces the needles in all texts and keys of a JSON value. A number that holds a needle becomes
 * a text, and of keys that become equal the later ones get a number, so that no entry is lost.
 * Returns the same value when `maskText` has no needles.
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
 * Masks the part of a text that grows, from a place on, without an end that may be the beginning of
 * a needle; `to` is where the next part begins. A needle across `from` has its marker in the part
 * before.
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
 * Masks a text that arrives in pieces. The results of all calls, joined, are the masked form of all
 * pieces, joined. Only the end of the text that may be the beginning of a needle is held back.
 */
export class StreamMask {
  #held = '';
  /** Characters at the beginning of the held text whose marker was returned already. */
  #masked = 0;

  push(piece: string, needles: Needles): string {
    if (needles.texts.length === 0 && this.#held === '') return piece;
    const text = this.#held + piece;
    return this.#pass(text, needles, unfinishedFrom(text, needles));
  }

  /** Returns what is held back, because the text has ended. */
  end(needles: Needles): string {
    return this.#held === '' ? '' : this.#pass(this.#held, needles, this.#held.length);
  }

  /** Returns the text up to a place, and holds the rest back. */
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
    // The marker of a needle that began in the held text was returned with an earlier piece.
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

/** Returns where the longest end of a text begins that is the beginning of a needle. */
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

/** Returns where the longest beginning of a text ends that is the end of a needle. */
function remainderTo(text: string, { texts }: Needles): number {
  let to = 0;
  for (const needle of texts)
    for (let length = Math.min(needle.length - 1, text.length); length > to; length--)
      if (text.startsWith(needle.slice(-length))) to = length;
  return to;
}
