/** An event of an agent as the archive takes it. */
export interface AgentEvent {
  /** 1 to `maxIdLength` characters. */
  readonly id: string;
  readonly kind: string;
  /** Local time of the agent; undefined where the event has no text of at most 64 characters. */
  readonly timestamp: string | undefined;
  /** JSON without line breaks. */
  readonly json: string;
  /** Bytes of the JSON. */
  readonly bytes: number;
}

export const maxIdLength = 128;
/** Maximum bytes of an event; the archive keeps the beginning of its fields of a larger one. */
export const maxEventBytes = 4 * 1024 * 1024;
const maxKindLength = 64;
const maxTimestampLength = 64;

interface Fields {
  readonly id?: unknown;
  readonly kind?: unknown;
  readonly timestamp?: unknown;
  readonly source?: unknown;
}

/**
 * An event from its JSON, which comes from an agent and is not trusted. Undefined for a text that
 * is no object with an id. An event that is too large loses all fields but those that name it, and
 * `archive_omitted_bytes` has its size.
 */
export function agentEventOf(text: string): AgentEvent | undefined {
  const fields = parse(text);
  const { id, kind, timestamp, source } = fields ?? {};
  if (typeof id !== 'string' || id === '' || id.length > maxIdLength) return undefined;
  const known = {
    id,
    kind: typeof kind === 'string' ? kind.slice(0, maxKindLength) : 'unknown',
    timestamp:
      typeof timestamp === 'string' && timestamp.length <= maxTimestampLength
        ? timestamp
        : undefined,
  };
  const bytes = Buffer.byteLength(text);
  if (bytes > maxEventBytes) return withJson(known, placeholderOf({ ...known, source }, bytes));
  if (/[\r\n]/.test(text)) return withJson(known, JSON.stringify(fields));
  return { ...known, json: text, bytes };
}

/** An event in place of one that is too large to be read. */
export function omittedEvent(id: string, bytes: number): AgentEvent {
  const known = { id, kind: 'unknown', timestamp: undefined };
  return withJson(known, placeholderOf(known, bytes));
}

const withJson = (known: Omit<AgentEvent, 'json' | 'bytes'>, json: string): AgentEvent => ({
  ...known,
  json,
  bytes: Buffer.byteLength(json),
});

function placeholderOf({ source, ...known }: Fields, bytes: number): string {
  return JSON.stringify({
    ...known,
    ...(typeof source === 'string' ? { source: source.slice(0, maxKindLength) } : {}),
    archive_omitted_bytes: bytes,
  });
}

/** The value of the id in the JSON of an event; undefined for other texts. */
export const idIn = (json: string): unknown => parse(json)?.id;

function parse(text: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
