/**
 * Whether parsed JSON nests lists and objects deeper than `maxDepth`. JSON.parse accepts any depth,
 * but recursive code such as JSON.stringify throws a RangeError after some thousand levels.
 */
export function isDeeperThan(value: unknown, maxDepth: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (maxDepth === 0) return true;
  const values: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  return values.some((each) => isDeeperThan(each, maxDepth - 1));
}

interface Level {
  readonly path: string;
  /** Names of the object's fields so far; undefined for a list. */
  readonly names: Set<string> | undefined;
  /** Name of the current field of an object. */
  name: string;
  index: number;
  expectsName: boolean;
}

const pathAt = ({ path, names, name, index }: Level): string => {
  if (names === undefined) return `${path}[${index}]`;
  return path === '' ? name : `${path}.${name}`;
};

/**
 * Yields the path, such as `spec.ports[0].name`, of each name that an object has more than once.
 * JSON.parse silently takes the last value. `text` is JSON that JSON.parse has accepted.
 */
export function* repeatedNames(text: string): Generator<string, void, undefined> {
  const levels: Level[] = [];
  for (let at = 0; at < text.length; at++) {
    const level = levels.at(-1);
    switch (text.charAt(at)) {
      case '{':
      case '[': {
        const isObject = text[at] === '{';
        levels.push({
          path: level === undefined ? '' : pathAt(level),
          names: isObject ? new Set() : undefined,
          name: '',
          index: 0,
          expectsName: isObject,
        });
        break;
      }
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
        if (level?.names !== undefined && level.expectsName) {
          const token = text.slice(at, end + 1);
          level.name = token.includes('\\') ? (JSON.parse(token) as string) : token.slice(1, -1);
          level.expectsName = false;
          if (level.names.has(level.name)) yield pathAt(level);
          level.names.add(level.name);
        }
        at = end;
        break;
      }
    }
  }
}

/** Index of the quote that ends the JSON string at `start`; the length of `json` without one. */
export function endOfString(json: string, start: number): number {
  for (let at = start + 1; at < json.length; at++) {
    const code = json.charCodeAt(at);
    if (code === quote) return at;
    if (code === backslash) at++;
  }
  return json.length;
}

const quote = 0x22;
const backslash = 0x5c;
