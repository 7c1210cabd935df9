/** A page of events as an agent sends it: the JSON of its items, and the id of the next page. */
export interface PageText {
  readonly items: readonly Buffer[];
  readonly next: string | undefined;
}

/** Maximum items of a page, and members of an object: millions of them would fill the memory. */
const maxParts = 1_000;

/**
 * Splits a page without writing its items anew: numbers that JavaScript does not represent, and the
 * order of fields, stay those of the agent. Undefined for a text that is no page. The items are
 * parts of the page's memory and are not validated: each of them may be no JSON.
 */
export function splitPage(text: Buffer): PageText | undefined {
  const root = membersOf(text);
  const items = root?.get('items');
  if (items === undefined) return undefined;
  const elements = partsOf(items, '[', ']');
  const next = valueOf(root?.get('next_page_id'));
  if (elements === undefined) return undefined;
  return { items: elements, next: typeof next === 'string' && next !== '' ? next : undefined };
}

/** The value of a JSON text; undefined for other texts. */
export function valueOf(json: Buffer | undefined): unknown {
  if (json === undefined) return undefined;
  try {
    return JSON.parse(json.toString());
  } catch {
    return undefined;
  }
}

/**
 * The members of an object, as texts that are not validated; undefined where the text is no object,
 * or has more than `maxParts` members.
 */
export function membersOf(text: Buffer): ReadonlyMap<string, Buffer> | undefined {
  const parts = partsOf(text, '{', '}');
  if (parts === undefined) return undefined;
  const members = new Map<string, Buffer>();
  for (const part of parts) {
    const end = part[0] === quote ? endOfString(part, 0) : 0;
    const name = valueOf(part.subarray(0, end));
    const rest = trimmed(part.subarray(end));
    if (typeof name !== 'string' || rest[0] !== colon) return undefined;
    members.set(name, trimmed(rest.subarray(1)));
  }
  return members;
}

/**
 * The texts between brackets that commas of the outermost level separate; undefined where there are
 * more than `maxParts`.
 */
function partsOf(json: Buffer, open: string, close: string): readonly Buffer[] | undefined {
  const text = trimmed(json);
  const end = text.length - 1;
  if (end < 1 || text[0] !== codeOf(open) || text[end] !== codeOf(close)) return undefined;
  const parts: Buffer[] = [];
  let depth = 0;
  let start = 1;
  for (let at = 1; at < end; at++) {
    switch (text[at]) {
      case quote:
        at = endOfString(text, at) - 1;
        if (at < 0) return undefined;
        break;
      case openBrace:
      case openBracket:
        depth++;
        break;
      case closeBrace:
      case closeBracket:
        if (--depth < 0) return undefined;
        break;
      case comma:
        if (depth > 0) break;
        if (parts.length === maxParts) return undefined;
        parts.push(trimmed(text.subarray(start, at)));
        start = at + 1;
        break;
      default:
    }
  }
  if (depth !== 0) return undefined;
  const last = trimmed(text.subarray(start, end));
  if (last.length > 0 || parts.length > 0) parts.push(last);
  return parts;
}

/** The index behind the string that begins at `start`; 0 where the string does not end. */
function endOfString(text: Buffer, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const code = text[at];
    if (code === quote) return at + 1;
    if (code === backslash) at++;
  }
  return 0;
}

/** Without the white space of JSON around it. */
function trimmed(text: Buffer): Buffer {
  let start = 0;
  let end = text.length;
  while (start < end && isSpace(text[start])) start++;
  while (end > start && isSpace(text[end - 1])) end--;
  return text.subarray(start, end);
}

const isSpace = (code: number | undefined): boolean =>
  code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;

// A byte below 0x80 is a character of its own in UTF-8, never a part of another one.
const codeOf = (character: string): number => character.charCodeAt(0);
const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;
