import { randomUUID } from 'node:crypto';
import { endOfString } from '@conversation-operator/base/json-text';

/** Methods of the ECMAScript proposal "JSON.parse source text access", which TypeScript lacks. */
interface SourceTextJson {
  rawJSON(text: string): object;
  isRawJSON(value: unknown): boolean;
}
const json = JSON as unknown as SourceTextJson;

const number = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
/** Maximum numbers that keep their notation. The parser needs seconds for a million of these. */
const maxNumbers = 10_000;

/**
 * Parses JSON without loss. JSON.stringify of the value writes each number as `text` has it: a
 * number that JavaScript would write differently (`1.0`, or one with too many digits) becomes an
 * object of `JSON.rawJSON`. Throws SyntaxError, and RangeError for more than 10,000 such objects. A
 * reviver would take seconds for a few megabytes of short values.
 */
export function parseExactly(text: string): unknown {
  const mark = randomUUID();
  const parts: string[] = [];
  let from = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '"') at = endOfString(text, at);
    else if (isOfNumber(text[at])) {
      const start = at;
      while (isOfNumber(text[at + 1])) at++;
      const token = text.slice(start, at + 1);
      if (String(Number(token)) === token || !number.test(token)) continue;
      parts.push(text.slice(from, start), `"${mark}${token}"`);
      from = at + 1;
      if (parts.length > 2 * maxNumbers) throw new RangeError('Too many numbers are not exact.');
    }
  }
  const value: unknown = JSON.parse(parts.join('') + text.slice(from));
  return parts.length === 0 ? value : withNumbers(value, mark);
}

const isOfNumber = (character = ''): boolean =>
  (character >= '0' && character <= '9') || '+-.eE'.includes(character || ' ');

/** Replaces each string of `mark` and a number by the number as an object of `JSON.rawJSON`. */
function withNumbers(value: unknown, mark: string): unknown {
  if (typeof value === 'string')
    return value.startsWith(mark) ? json.rawJSON(value.slice(mark.length)) : value;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((each) => withNumbers(each, mark));
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [name, withNumbers(each, mark)]),
  );
}

/** Whether a value from `parseExactly` is an object of `JSON.rawJSON`, that is, a number. */
export const isExactNumber = (value: object): boolean => json.isRawJSON(value);
