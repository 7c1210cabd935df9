import { isDeeperThan } from '@conversation-operator/base/json-text';
import { isEvent, isSearched } from '../agent/event-kinds.ts';

export interface SourcePage {
  /** In the order of the log, or in reverse order. */
  readonly events: readonly AgentEvent[];
  /** Number of events without a valid id, which the page leaves out. */
  readonly invalid: number;
  /** Id of the first event of the next page. Undefined: this page is the last one. */
  readonly next: string | undefined;
}

/** Log of a conversation at an agent. A hostile agent may repeat ids or send endless pages. */
export interface EventSource {
  /**
   * Page whose first event is `from`. Without `from`: the first page, or with `descending` the last
   * events. An agent that does not know the id answers with the first page.
   */
  page(
    from: string | undefined,
    options: { readonly descending: boolean; readonly signal: AbortSignal },
  ): Promise<SourcePage>;
}

export interface AgentEvent {
  /** 1 to `maxIdLength` characters. */
  readonly id: string;
  readonly kind: string;
  /** Agent's local time; undefined if the event has no timestamp of at most 64 characters. */
  readonly timestamp: string | undefined;
  /** JSON in UTF-8, without line breaks. */
  readonly json: Buffer;
  /** Searchable texts; empty if the archive stores only some fields of a large event. */
  readonly texts: readonly string[];
}

export const maxIdLength = 128;
/** Maximum bytes of an event. A larger one is archived with its identifying fields only. */
export const maxEventBytes = 4 * 1024 * 1024;
/** Maximum levels of lists and objects. A deeper event is treated as one that is too large. */
const maxDepth = 256;
const maxKindLength = 64;
const maxTimestampLength = 64;

interface Fields {
  readonly id?: unknown;
  readonly kind?: unknown;
  readonly timestamp?: unknown;
  readonly source?: unknown;
}

/**
 * Reads an event from an agent's JSON, which is not trusted. Undefined if the JSON is no object
 * with an id. An event that is too large or too deep keeps only its identifying fields, and
 * `archive_omitted_bytes` has its size.
 */
export function agentEventOf(text: Buffer): AgentEvent | undefined {
  const parsed = text.length > maxEventBytes ? undefined : parse(text.toString());
  // Readers of the archive visit all levels by recursion, as JSON.stringify below does.
  const isOmitted = text.length > maxEventBytes || isDeeperThan(parsed, maxDepth);
  const fields = isOmitted ? outerFields(text) : parsed;
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
  // JSON.stringify may lengthen the text: `1e20` becomes 100000000000000000000.
  const json = hasLines ? Buffer.from(JSON.stringify(fields)) : text;
  return json.length > maxEventBytes
    ? withoutFields()
    : { ...known, json, texts: visibleTexts(fields) };
}

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

export const idIn = (json: Buffer): unknown => parse(json.toString())?.id;

/** Reads string fields without a parse of the text: 16 MiB would take seconds and much memory. */
function outerFields(text: Buffer): Fields | undefined {
  const members = membersOf(text);
  if (members === undefined) return undefined;
  const textOf = (name: string): unknown => {
    const member = members.get(name);
    return member?.[0] === quote ? valueOf(member) : undefined;
  };
  return {
    id: textOf('id'),
    kind: textOf('kind'),
    timestamp: textOf('timestamp'),
    source: textOf('source'),
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

/** A page of events as an agent sends it: the JSON of each item, and the id of the next page. */
interface PageText {
  readonly items: readonly Buffer[];
  readonly next: string | undefined;
}

/** Maximum items of a page, and fields of an object. Larger numbers could fill the memory. */
const maxParts = 1_000;

/**
 * Splits a page without a change of its items, so that their numbers and the order of their fields
 * stay as the agent sent them. Undefined for a text that is no page. The items share the memory of
 * `text` and are not validated: an item may be invalid JSON.
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

function valueOf(json: Buffer | undefined): unknown {
  if (json === undefined) return undefined;
  try {
    return JSON.parse(json.toString());
  } catch {
    return undefined;
  }
}

/** Splits an object into fields, not validated. Undefined: no object, or over `maxParts`. */
function membersOf(text: Buffer): ReadonlyMap<string, Buffer> | undefined {
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

/** Splits a list or object at its outermost commas. Undefined: neither, or over `maxParts`. */
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

/** Index after the string that begins at `start`; 0 if the string does not end. */
function endOfString(text: Buffer, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const code = text[at];
    if (code === quote) return at + 1;
    if (code === backslash) at++;
  }
  return 0;
}

function trimmed(text: Buffer): Buffer {
  let start = 0;
  let end = text.length;
  while (start < end && isSpace(text[start])) start++;
  while (end > start && isSpace(text[end - 1])) end--;
  return text.subarray(start, end);
}

const isSpace = (code: number | undefined): boolean =>
  code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;

// Every character given is ASCII, so its byte occurs in no other character of UTF-8.
const codeOf = (character: string): number => character.charCodeAt(0);
const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/** Fields that no person reads: names of types, counts, and copies of other fields. */
const hiddenFields: ReadonlySet<string> = new Set([
  ...['kind', 'type', 'role', 'source', 'timestamp', 'status', 'key', 'tool_kind', 'origin'],
  ...['security_risk', 'rejection_source', 'activated_skills', 'extended_content', 'metadata'],
  // This field repeats the arguments in `action`.
  'tool_call',
  // These fields contain encoded bytes.
  ...['image_urls', 'signature', 'encrypted_content', 'call_hash', 'secret_marker'],
]);
const idField = /(?:^|_)ids?$|[a-z]Ids?$/;
/** Types of content parts without readable text: images, audio and encrypted thoughts. */
const hiddenParts: ReadonlySet<unknown> = new Set(['image', 'audio', 'redacted_thinking']);

/**
 * The texts that people read in an event, such as messages, thoughts, commands, outputs and paths.
 * Field names and ids are left out. Agents are not trusted: fields may have any type.
 * @param event Parsed JSON of an event, at most 256 levels deep.
 */
export function visibleTexts(event: unknown): readonly string[] {
  const texts: string[] = [];
  if (isEvent(event) && isSearched(event)) collect(event, texts);
  return texts;
}

function collect(value: unknown, texts: string[]): void {
  if (typeof value === 'string') {
    if (value !== '' && !value.startsWith('data:')) texts.push(value);
  } else if (Array.isArray(value)) {
    for (const item of value) collect(item, texts);
  } else if (typeof value === 'object' && value !== null) {
    if ('type' in value && hiddenParts.has(value.type)) return;
    for (const [name, field] of Object.entries(value))
      if (!hiddenFields.has(name) && !idField.test(name)) collect(field, texts);
  }
}
