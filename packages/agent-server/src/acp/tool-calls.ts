import * as z from 'zod/mini';
import type { AcpToolCall } from '../events.ts';

/** Maximum characters of JSON for each of the input, output and content of a tool call. */
export const maxDataCharacters = 30_000;

/** Returns a value unchanged, or the beginning of its JSON if the JSON is too long. */
export function bounded(value: unknown, maxCharacters = maxDataCharacters): unknown {
  if (value === undefined || value === null) return undefined;
  const text = JSON.stringify(value);
  if (text.length <= maxCharacters) return value;
  return `${text.slice(0, maxCharacters)}… (${text.length - maxCharacters} characters omitted)`;
}

/** Maximum characters of JSON for each field that `withBeside` adds to an input. */
const maxBeside = 4_000;

const separator = '\0';

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Removes ids of terminals, because each permission request for a call has new ids. */
export function withoutPlaces(content: unknown): unknown {
  if (!Array.isArray(content)) return content;
  return content.map((part: unknown) => {
    if (!isRecord(part)) return part;
    const { terminalId, ...others } = part;
    return others['type'] === 'terminal' && typeof terminalId === 'string' ? others : part;
  });
}

/** Returns the first part that is not empty. */
export const firstSaid = (...parts: readonly unknown[]): unknown =>
  parts.find(
    (part) =>
      part !== undefined &&
      part !== null &&
      part !== '' &&
      !(typeof part === 'object' && Object.keys(part).length === 0),
  );

export const bothOf = (reported: unknown, asked: unknown): unknown =>
  reported === undefined ? asked : { reported, asked };

/** Whether `reported` contains each field of `asked` with the same value. */
export function isPartOf(asked: unknown, reported: unknown): boolean {
  if (!isRecord(asked) || !isRecord(reported)) return false;
  const fields = Object.entries(asked);
  return (
    fields.length > 0 &&
    fields.every(
      ([name, value]) =>
        Object.hasOwn(reported, name) && JSON.stringify(value) === JSON.stringify(reported[name]),
    )
  );
}

/**
 * Adds to the input what only the content and the locations of the call contain, as the fields
 * `(content)` and `(locations)`, so that a person sees it. The tool itself gets the input alone.
 * `said` has the parts, or lists of parts, with secrets masked and without ids of terminals.
 */
export function withBeside(
  input: unknown,
  title: string | undefined,
  said: Readonly<Record<'(content)' | '(locations)', readonly unknown[]>>,
): unknown {
  const known = [...leavesOf(input), title ?? ''].join(separator);
  const isIn = (leaf: string) => !leaf.includes(separator) && known.includes(leaf);
  const beside = Object.entries(said).flatMap(([name, given]) => {
    const all = given.flat().filter((part) => part !== undefined && part !== null);
    // Comparing more text would take seconds.
    const isLong = JSON.stringify(all).length > 2 * maxDataCharacters;
    const unknown = isLong ? all : all.filter((part) => !leavesOf(part).every(isIn));
    const parts = [...new Map(unknown.map((part) => [JSON.stringify(part), part])).values()];
    return parts.length === 0 ? [] : [[name, beginningOf(parts)] as const];
  });
  const hasName = (name: string) => isRecord(input) && Object.hasOwn(input, name);
  const isOwn = isRecord(input) && !['(input)', '(content)', '(locations)'].some(hasName);
  if (beside.length === 0 && isOwn === isRecord(input)) return input;
  const others = input === null ? {} : { '(input)': input };
  return { ...(isOwn ? input : others), ...Object.fromEntries(beside) };
}

/** Returns the parts unchanged, or the beginning of their JSON if the JSON is too long. */
function beginningOf(parts: readonly unknown[]): unknown {
  const text = JSON.stringify(parts);
  return text.length <= maxBeside ? parts : `${text.slice(0, maxBeside)}… (the rest is omitted)`;
}

/** Values of `type` in the protocol, which say nothing about the call. */
const types: ReadonlySet<unknown> = new Set(['content', 'diff', 'terminal', 'text']);

/** Returns the texts and numbers in a part of a call; of a diff, only the changed text. */
function leavesOf(part: unknown): readonly string[] {
  if (typeof part === 'string') return [part];
  if (typeof part === 'number') return [String(part)];
  if (typeof part !== 'object' || part === null) return [];
  if (!isRecord(part)) return Object.values(part).flatMap(leavesOf);
  const { type, oldText, newText, ...others } = part;
  const texts =
    type === 'diff' && typeof newText === 'string'
      ? changed(typeof oldText === 'string' ? oldText : '', newText)
      : [oldText, newText];
  return [types.has(type) ? [] : type, ...texts, ...Object.values(others)].flatMap(leavesOf);
}

/** Returns two texts without their common beginning and end. */
function changed(one: string, other: string): readonly [string, string] {
  const shorter = Math.min(one.length, other.length);
  let start = 0;
  while (start < shorter && one[start] === other[start]) start++;
  let end = 0;
  while (end < shorter - start && one.at(-1 - end) === other.at(-1 - end)) end++;
  return [one.slice(start, one.length - end), other.slice(start, other.length - end)];
}

interface AskedParts {
  readonly title: string;
  readonly kind: string;
  /** Inputs of the earlier updates and of the permission request; nullish if absent. */
  readonly inputs: readonly unknown[];
  readonly contents: readonly unknown[];
  /** Files that the permission request names, as the agent sent them. */
  readonly locations: unknown;
}

const contentParts = z.array(
  z.looseObject({
    path: z.optional(z.string()),
    content: z.optional(z.looseObject({ text: z.optional(z.string()) })),
  }),
);
const paths = z.array(z.object({ path: z.string() }));

/** Text that Gemini sends instead of MCP arguments longer than 500 characters. */
const omittedPayload = '[Payload omitted due to length';
/** End of a title that Gemini has truncated, for example the title of a fetch. */
const shortenedEnd = /(?:\.\.\.|…)["'`]?$/;
/** Kinds of tools that do nothing without an argument. */
const needsInput: ReadonlySet<string> = new Set(['read', 'delete', 'move', 'fetch']);

/**
 * Whether an agent has omitted a part of the call. Gemini omits long arguments, Codex omits the
 * change of a file larger than 1 MiB, and OpenCode omits which file it reads.
 */
export function hasOmission({ title, kind, inputs, contents, locations }: AskedParts): boolean {
  const parts = contents.flatMap((content) => contentParts.safeParse(content).data ?? []);
  if (parts.some(({ content }) => content?.text?.startsWith(omittedPayload) === true)) return true;
  const sent = inputs.filter((input) => input !== undefined && input !== null);
  if (sent.some((input) => !isEmpty(input))) return false;
  const changed = new Set(parts.flatMap(({ path }) => path ?? []));
  if (kind === 'edit' && parts.every(({ path }) => path !== undefined)) {
    const named = new Set(paths.safeParse(locations).data?.map(({ path }) => path));
    return changed.size < Math.max(1, named.size);
  }
  // The title of a command is the command itself, which may end like a truncated text.
  if (parts.length > 0 || kind === 'execute') return false;
  return shortenedEnd.test(title) || (sent.length > 0 && needsInput.has(kind));
}

const isEmpty = (input: unknown): boolean =>
  typeof input === 'object' && input !== null && Object.keys(input).length === 0;

interface Parts {
  readonly title?: string | null | undefined;
  readonly kind?: string | null | undefined;
  readonly status?: string | null | undefined;
  readonly rawInput?: unknown;
  readonly rawOutput?: unknown;
  readonly content?: unknown;
  readonly locations?: unknown;
}

const texts = z.array(z.object({ content: z.object({ text: z.string() }) }));
const output = z.object({ output: z.string() });

/** Code block in which Codex sends output. Each update has all output and a closing fence. */
const fenced = /^```\w*\n([^]*?)(?:\n?```\n*)?$/;

/** Returns the output so far of a running call; empty if the update has none. */
export function outputOf({ content, rawOutput }: Parts): string {
  const parts = texts.safeParse(content).data ?? [];
  const text =
    parts.length > 0
      ? parts.map((part) => part.content.text).join('\n')
      : typeof rawOutput === 'string'
        ? rawOutput
        : (output.safeParse(rawOutput).data?.output ?? '');
  return fenced.exec(text)?.[1] ?? text;
}

const isSame = (given: string | null | undefined, known: string): boolean =>
  given == null || given === known;

/**
 * Whether an update only extends the output of a call. The log stores the output only when its size
 * has doubled since `logged`, the size of the stored output, so that the events of a command that
 * writes for hours are no larger than its output.
 */
export const isProgress = (
  { title, kind, status, rawInput, locations, ...update }: Parts,
  known: AcpToolCall | undefined,
  logged: number,
): boolean =>
  known?.status === 'in_progress' &&
  isSame(title, known.title) &&
  isSame(kind, known.tool_kind) &&
  isSame(status, known.status) &&
  rawInput === undefined &&
  locations === undefined &&
  sizeOf(update) < 2 * logged;

/** Returns the size of the output in an update, in characters of JSON. */
export const sizeOf = ({ content, rawOutput }: Pick<Parts, 'content' | 'rawOutput'>): number =>
  lengthOf(content) + lengthOf(rawOutput);

const lengthOf = (value: unknown): number =>
  value === undefined ? 0 : JSON.stringify(value).length;
