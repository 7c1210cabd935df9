/** Field of the objects in a response: `items`, an array, or `object` of a watch event. */
type ObjectsField = 'items' | 'object';

export interface Shortening {
  readonly within: ObjectsField;
  /** Maximum bytes of a text, as JSON without its quotes. */
  readonly maxTextBytes: number;
}

export interface Shortened {
  readonly json: Buffer;
  /** Number of bytes that `json` lacks for each object, in the order of the response; absent: 0. */
  readonly removed: readonly number[];
}

const quote = 0x22;
const colon = 0x3a;
const space = 0x20;
const backslash = 0x5c;
const letterU = 0x75;
/** Only bit in which brackets and braces differ. */
const braceBit = 0x20;
const openingBracket = 0x5b;
const closingBracket = 0x5d;
const fields: Readonly<Record<ObjectsField, Buffer>> = {
  items: Buffer.from('items'),
  object: Buffer.from('object'),
};
const status = Buffer.from('status');
/**
 * Maximum bytes of a string that are checked one by one before a native search, whose call costs as
 * much as these checks.
 */
const shortBytes = 64;

/**
 * Truncates every text of objects that is longer than `maxTextBytes`, in JSON that has not been
 * decoded, because decoding and parsing a text cost ten times as much as finding its end. A text
 * keeps whole characters and whole escape sequences. Keys, the status of an object, and everything
 * outside of objects remain unchanged.
 *
 * The scan takes time in proportion to the bytes and never throws. For bytes that are not JSON the
 * result is not JSON either, unless truncation has removed the invalid part.
 */
export function shortenTexts(json: Buffer, { within, maxTextBytes }: Shortening): Shortened {
  if (json.length <= maxTextBytes) return { json, removed: [] };
  const objectDepth = within === 'items' ? 3 : 2;
  const parts: Buffer[] = [];
  let removed: number[] = [];
  let copiedTo = 0;
  let depth = 0;
  let isInField = false;
  let isInStatus = false;
  for (let at = 0; at < json.length; at++) {
    const byte = json[at] ?? 0;
    if (byte === quote) {
      const start = at + 1;
      const end = endOfString(json, start);
      if (end === -1) break;
      at = end;
      if (depth === 1 && isKey(json, end)) {
        isInField = isEqual(json, start, end, fields[within]);
        if (isInField) removed = [];
      } else if (depth === objectDepth && isKey(json, end)) {
        isInStatus = isEqual(json, start, end, status);
      } else if (
        end - start > maxTextBytes &&
        isInField &&
        depth >= objectDepth &&
        !isInStatus &&
        !isKey(json, end)
      ) {
        const boundary = lastBoundary(json, start, start + maxTextBytes);
        parts.push(json.subarray(copiedTo, boundary));
        copiedTo = end;
        removed[removed.length - 1] = (removed.at(-1) ?? 0) + end - boundary;
      }
    } else if ((byte & ~braceBit) === openingBracket) {
      depth++;
      if (depth === objectDepth && isInField) {
        removed.push(0);
        isInStatus = false;
      }
    } else if ((byte & ~braceBit) === closingBracket) {
      depth--;
    }
  }
  return {
    json: parts.length === 0 ? json : Buffer.concat([...parts, json.subarray(copiedTo)]),
    removed,
  };
}

/** Returns the position of the closing quote of a string; -1 when the string does not end. */
function endOfString(json: Buffer, start: number): number {
  let at = start;
  for (const stop = start + shortBytes; at < stop; at++) {
    const byte = json[at];
    if (byte === quote) return at;
    if (byte === undefined) return -1;
    if (byte === backslash) at++;
  }
  // No escape sequence crosses `at`: a backslash before `at` belongs to a complete escape sequence.
  for (let end = json.indexOf(quote, at); end !== -1; end = json.indexOf(quote, end + 1)) {
    let backslashes = 0;
    while (end - backslashes > at && json[end - backslashes - 1] === backslash) backslashes++;
    if (backslashes % 2 === 0) return end;
  }
  return -1;
}

/** Last position up to `limit` between two characters and outside of escape sequences. */
function lastBoundary(json: Buffer, start: number, limit: number): number {
  let boundary = start;
  for (let at = start; at <= limit;) {
    boundary = at;
    if (json[at] !== backslash) at++;
    else at += json[at + 1] === letterU ? 6 : 2;
  }
  while (boundary > start && isContinuation(json[boundary])) boundary--;
  return boundary;
}

/** Returns whether a byte of UTF-8 is not the first byte of its character. */
const isContinuation = (byte = 0): boolean => (byte & 0xc0) === 0x80;

function isKey(json: Buffer, end: number): boolean {
  let at = end + 1;
  // All white space of JSON is at most a space, and no other byte after a string is.
  while ((json[at] ?? colon) <= space) at++;
  return json[at] === colon;
}

const isEqual = (json: Buffer, start: number, end: number, name: Buffer): boolean =>
  end - start === name.length && json.compare(name, 0, name.length, start, end) === 0;
