/** Properties of a JSON text that JSON.parse does not report: duplicate keys and the depth. */
export interface TextShape {
  /**
   * Paths of duplicate keys in the form of strict decoding (`spec.ports[0].name`), each path once.
   */
  readonly duplicates: readonly string[];
  readonly depth: number;
}

interface Level {
  readonly path: string;
  /** Undefined: the level is a list. */
  readonly keys: Set<string> | undefined;
  key: string;
  index: number;
}

const tokens = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g;

const pathAt = ({ path, keys, key, index }: Level): string => {
  if (keys === undefined) return `${path}[${index}]`;
  return path === '' ? key : `${path}.${key}`;
};

/** Returns the shape of a text that JSON.parse has accepted. */
export function shapeOf(text: string): TextShape {
  const duplicates = new Set<string>();
  const levels: Level[] = [];
  let depth = 0;
  let awaitsKey = false;
  for (const [token] of text.matchAll(tokens)) {
    const level = levels.at(-1);
    if (token === '{' || token === '[') {
      levels.push({
        path: level === undefined ? '' : pathAt(level),
        keys: token === '{' ? new Set() : undefined,
        key: '',
        index: 0,
      });
      depth = Math.max(depth, levels.length);
      awaitsKey = token === '{';
    } else if (token === '}' || token === ']') {
      levels.pop();
      awaitsKey = false;
    } else if (token === ',') {
      if (level !== undefined) level.index += 1;
      awaitsKey = level?.keys !== undefined;
    } else if (token !== ':' && awaitsKey && level?.keys !== undefined) {
      level.key = token.includes('\\') ? (JSON.parse(token) as string) : token.slice(1, -1);
      if (level.keys.has(level.key)) duplicates.add(pathAt(level));
      level.keys.add(level.key);
      awaitsKey = false;
    }
  }
  return { duplicates: [...duplicates], depth };
}
