import { Refusal } from '../refusal.ts';

/** Maximum depth of a body. All requests of this service are far below it. */
const maxDepth = 64;
/** Maximum length of a name in a message: the name is the client's own text. */
const maxShownLength = 64;

interface Level {
  /** The names that an object has so far; undefined for an array. */
  readonly names: Set<string> | undefined;
  /** The name or the index at which the reader is. */
  name: string;
  index: number;
  expectsName: boolean;
}

const malformed = (detail: string) => new Refusal('malformed-json', detail);

const pathOf = (levels: readonly Level[]): string =>
  levels.reduce(
    (path, { names, name, index }) =>
      names === undefined ? `${path}[${index}]` : `${path}.${shown(name)}`,
    'body',
  );

const shown = (name: string): string =>
  // eslint-disable-next-line no-control-regex -- the pattern replaces control characters
  name.slice(0, maxShownLength).replaceAll(/[\u0000-\u001f\u007f-\u009f]/g, '?');

/**
 * The end of the string that begins at `start`: behind the first quote with an even number of
 * backslashes before it.
 */
function endOfString(text: string, start: number): number {
  for (let quote = text.indexOf('"', start + 1); ; quote = text.indexOf('"', quote + 1)) {
    let slashes = 0;
    while (text[quote - 1 - slashes] === '\\') slashes += 1;
    if (slashes % 2 === 0) return quote + 1;
  }
}

/**
 * Parses a body, which has to be an object or an array. A name may occur in an object only once
 * (RFC 7493): of two, some readers take the first and some the last one, so that what one has
 * checked the other would not do. Throws `malformed-json`.
 */
export function parseJson(text: string): unknown {
  const value = parse(text);
  if (typeof value !== 'object' || value === null)
    throw malformed('The body has to be a JSON object or array.');
  refuseAmbiguous(text);
  return value;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Refusal('malformed-json', 'The body is not valid JSON.', { cause });
  }
}

/** The text is valid JSON. */
function refuseAmbiguous(text: string): void {
  const levels: Level[] = [];
  for (let at = 0; at < text.length; at++) {
    const level = levels.at(-1);
    switch (text.charAt(at)) {
      case '{':
      case '[':
        if (levels.length === maxDepth)
          throw malformed(`The body is nested more than ${maxDepth} levels deep.`);
        levels.push({
          names: text[at] === '{' ? new Set() : undefined,
          name: '',
          index: 0,
          expectsName: text[at] === '{',
        });
        break;
      case '}':
      case ']':
        levels.pop();
        break;
      case ',':
        if (level === undefined) break;
        level.index += 1;
        level.expectsName = level.names !== undefined;
        break;
      case '"': {
        const end = endOfString(text, at);
        readName(text.slice(at, end), levels);
        at = end - 1;
        break;
      }
    }
  }
}

/** The token is a string, which may be a name. */
function readName(token: string, levels: readonly Level[]): void {
  const level = levels.at(-1);
  if (level?.names === undefined || !level.expectsName) return;
  const name = token.includes('\\') ? String(JSON.parse(token)) : token.slice(1, -1);
  level.expectsName = false;
  level.name = name;
  if (level.names.has(name))
    throw malformed(
      `The name "${shown(name)}" occurs twice in the same object, at ${pathOf(levels)}.`,
    );
  level.names.add(name);
}
