import { BadCallError } from './model-api.ts';

/** Maximum nesting of a body. JSON.parse needs 100 bytes and more for each level. */
const maxDepth = 256;
/** Maximum fields and items of a body. JSON.parse needs a second for some million of them. */
const maxValues = 100_000;
/** Maximum fields of one object, because tables of more names take most of the time. */
const maxNames = 10_000;
/** Objects with more names than this search a repeated one in a Set. */
const manyNames = 16;

/** Index of the quote that ends the JSON string at `start`; the length of `text` without one. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let before = end - 1;
    while (text.charCodeAt(before) === backslash) before--;
    if ((end - before) % 2 === 1) return end;
  }
  return text.length;
}

const nameOf = (token: string): string =>
  token.includes('\\') ? String(JSON.parse(token)) : token.slice(1, -1);

/** Names of an object that is being read: a Set only where there are many. */
interface Names {
  readonly few: string[];
  many: Set<string> | undefined;
  expectsName: boolean;
}

function isRepeated(names: Names, name: string): boolean {
  if (names.many !== undefined) {
    if (names.many.has(name)) return true;
    names.many.add(name);
    if (names.many.size > maxNames)
      throw new BadCallError(`An object must have at most ${String(maxNames)} fields.`);
    return false;
  }
  if (names.few.includes(name)) return true;
  names.few.push(name);
  if (names.few.length > manyNames) names.many = new Set(names.few);
  return false;
}

/**
 * Refuses text in which an object has a name twice, because parsers differ in which of the values
 * they take, and text that is nested too deeply. Linear in the length of `text`, which need not be
 * JSON: JSON.parse has to refuse it if it is not.
 */
export function refuseAmbiguous(text: string): void {
  const levels: (Names | undefined)[] = [];
  let values = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case openBrace:
      case openBracket:
        countValue();
        if (levels.length === maxDepth)
          throw new BadCallError(
            `The body must be nested at most ${String(maxDepth)} levels deep.`,
          );
        levels.push(
          text.charCodeAt(at) === openBrace
            ? { few: [], many: undefined, expectsName: true }
            : undefined,
        );
        break;
      case closeBrace:
      case closeBracket:
        levels.pop();
        break;
      case comma: {
        countValue();
        const level = levels.at(-1);
        if (level !== undefined) level.expectsName = true;
        break;
      }
      case quote: {
        const end = endOfString(text, at);
        const level = levels.at(-1);
        if (level?.expectsName === true) {
          level.expectsName = false;
          const name = decoded(text.slice(at, end + 1));
          if (isRepeated(level, name))
            throw new BadCallError(
              `The field ${shortened(name)} occurs twice in one object; it may occur once.`,
            );
        }
        at = end;
        break;
      }
    }
  }

  function countValue(): void {
    if (++values > maxValues)
      throw new BadCallError(
        `The body must have at most ${String(maxValues)} fields and items in all.`,
      );
  }
}

/** Names that JSON.parse will refuse in a moment are compared as they are. */
function decoded(token: string): string {
  try {
    return nameOf(token);
  } catch {
    return token;
  }
}

/** A name of the body, for a message. */
export const shortened = (name: string): string =>
  JSON.stringify(name.length > 64 ? `${name.slice(0, 64)}…` : name);

/** A field of an object in JSON text, with the offsets of its name with quotes, and of its value. */
export interface Member {
  readonly name: string;
  readonly nameStart: number;
  readonly nameEnd: number;
  readonly start: number;
  readonly end: number;
}

/** Fields of the object whose brace is at `open`. `text` is JSON that JSON.parse has accepted. */
export function membersAt(text: string, open: number): readonly Member[] {
  const members: Member[] = [];
  let depth = 0;
  let name: string | undefined;
  let [nameStart, nameEnd] = [-1, -1];
  let start = -1;
  for (let at = open; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (isSpace(code)) continue;
    if (depth === 1 && (code === comma || code === closeBrace)) {
      if (name !== undefined)
        members.push({ name, nameStart, nameEnd, start, end: endOfValue(text, at) });
      if (code === closeBrace) return members;
      name = undefined;
      start = -1;
      continue;
    }
    if (depth === 1 && name !== undefined && start === -1 && code !== colon) start = at;
    if (code === quote) {
      const end = endOfString(text, at);
      if (depth === 1 && name === undefined) {
        [nameStart, nameEnd] = [at, end + 1];
        name = nameOf(text.slice(nameStart, nameEnd));
      }
      at = end;
    } else if (code === openBrace || code === openBracket) depth++;
    else if (code === closeBrace || code === closeBracket) depth--;
  }
  return members;
}

function endOfValue(text: string, separator: number): number {
  let end = separator;
  while (isSpace(text.charCodeAt(end - 1))) end--;
  return end;
}

const isSpace = (code: number): boolean =>
  code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const colon = 0x3a;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;
