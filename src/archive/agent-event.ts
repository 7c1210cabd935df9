import { isDeeperThan } from '@conversation-operator/base/json-depth';
import { membersOf, valueOf } from './page-text.ts';
import { visibleTexts } from './visible-texts.ts';

/** An event of an agent as the archive takes it. */
export interface AgentEvent {
  /** 1 to `maxIdLength` characters. */
  readonly id: string;
  readonly kind: string;
  /** Local time of the agent; undefined where the event has no text of at most 64 characters. */
  readonly timestamp: string | undefined;
  /** JSON in UTF-8, without line breaks. */
  readonly json: Buffer;
  /** The texts that people read, for a search; none where the archive does not keep the fields. */
  readonly texts: readonly string[];
}

export const maxIdLength = 128;
/** Maximum bytes of an event; the archive keeps the beginning of its fields of a larger one. */
export const maxEventBytes = 4 * 1024 * 1024;
/** Maximum levels of lists and objects; a deeper event is treated as one that is too large. */
const maxDepth = 256;
const maxKindLength = 64;
const maxTimestampLength = 64;
const quote = 0x22;

interface Fields {
  readonly id?: unknown;
  readonly kind?: unknown;
  readonly timestamp?: unknown;
  readonly source?: unknown;
}

/**
 * An event from its JSON, which comes from an agent and is not trusted. Undefined for a text that
 * is no object with an id. An event that is too large or too deep loses all fields but those that
 * name it, and `archive_omitted_bytes` has its size.
 */
export function agentEventOf(text: Buffer): AgentEvent | undefined {
  const string = text.toString();
  // Readers of the archive walk its events by recursion, as JSON.stringify below.
  const isOmitted = text.length > maxEventBytes || isDeeperThan(string, maxDepth);
  const fields = isOmitted ? outerFields(text) : parse(string);
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
  const withoutFields = () => ({
    ...known,
    json: placeholderOf({ ...known, source }, text.length),
    texts: [],
  });
  if (isOmitted) return withoutFields();
  const hasLines = text.includes('\n') || text.includes('\r');
  // Without its line breaks a text may be longer: `1e20` becomes 100000000000000000000.
  const json = hasLines ? Buffer.from(JSON.stringify(fields)) : text;
  return json.length > maxEventBytes
    ? withoutFields()
    : { ...known, json, texts: visibleTexts(fields) };
}

/** An event in place of one that is too large to be read. */
export function omittedEvent(id: string, bytes: number): AgentEvent {
  const known = { id, kind: 'unknown', timestamp: undefined };
  return { ...known, json: placeholderOf(known, bytes), texts: [] };
}

function placeholderOf({ source, ...known }: Fields, bytes: number): Buffer {
  const fields = {
    ...known,
    ...(typeof source === 'string' ? { source: source.slice(0, maxKindLength) } : {}),
    archive_omitted_bytes: bytes,
  };
  return Buffer.from(JSON.stringify(fields));
}

/** The value of the id in the JSON of an event; undefined for other texts. */
export const idIn = (json: Buffer): unknown => parse(json.toString())?.id;

/**
 * The texts among the fields of an event that is not parsed as a whole: 16 MiB of small or nested
 * values take the process seconds, and much memory.
 */
function outerFields(text: Buffer): Fields | undefined {
  const members = membersOf(text);
  if (members === undefined) return undefined;
  const textOf = (name: string): unknown => {
    const member = members.get(name);
    return member?.[0] === quote ? valueOf(member) : undefined;
  };
  return {
    ...{ id: textOf('id'), kind: textOf('kind') },
    ...{ timestamp: textOf('timestamp'), source: textOf('source') },
  };
}

function parse(text: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
