import { randomUUID } from 'node:crypto';
import { endOfString } from '@conversation-operator/base/json-text';

/** Source text access of ECMAScript, which the types of TypeScript lack. */
interface SourceTextJson {
  rawJSON(text: string): object;
  isRawJSON(value: unknown): boolean;
}
const json = JSON as unknown as SourceTextJson;

const number = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
/** Maximum numbers that are kept as written: a million take seconds, and nobody reads them all. */
const maxNumbers = 10_000;

/**
 * Parses JSON. A number that JSON.stringify would write in another way, because it is rounded or
 * beyond the range of numbers, becomes an object that JSON.stringify writes as it was. Throws
 * SyntaxError, and RangeError for more than 10,000 of these numbers. A reviver with access to the
 * source takes seconds for some megabytes of short values.
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

/** The value with a number in the place of each text that begins with the mark. */
function withNumbers(value: unknown, mark: string): unknown {
  if (typeof value === 'string')
    return value.startsWith(mark) ? json.rawJSON(value.slice(mark.length)) : value;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((each) => withNumbers(each, mark));
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [name, withNumbers(each, mark)]),
  );
}

/** Whether a value of `parseExactly` is a number that JSON.stringify writes as it was. */
export const isExactNumber = (value: object): boolean => json.isRawJSON(value);
