import { maxDataCharacters } from './bounded.ts';

/** The input of a tool call as a question shows it. Pure. */

/** Maximum characters of what an agent says beside an input, as JSON; for instance whole files. */
const maxBeside = 4_000;

/** A character between texts in which others are searched. */
const separator = '\0';

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * The contents of a tool call without the ids of the terminals that show its output. An agent makes
 * a new id each time that it asks about the call.
 */
export function withoutPlaces(content: unknown): unknown {
  if (!Array.isArray(content)) return content;
  return content.map((part: unknown) => {
    if (!isRecord(part)) return part;
    const { terminalId, ...others } = part;
    return others['type'] === 'terminal' && typeof terminalId === 'string' ? others : part;
  });
}

/** The first of these parts that says anything. */
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

/** Whether each field of the request is one of the call. */
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
 * The input with what the agent says of the call beside it and neither the input nor the title has:
 * arguments `(content)` and `(locations)`. The tool gets the input alone.
 * @param said Parts, or lists of parts, without secrets and ids of terminals, by their argument.
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
    // A comparison of more text would take seconds.
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

/** Parts as they are, or the beginning of their JSON. An agent's own end may be omitted already. */
function beginningOf(parts: readonly unknown[]): unknown {
  const text = JSON.stringify(parts);
  return text.length <= maxBeside ? parts : `${text.slice(0, maxBeside)}… (the rest is omitted)`;
}

/** Words of the protocol, which say nothing of the call. */
const types: ReadonlySet<unknown> = new Set(['content', 'diff', 'terminal', 'text']);

/** The texts and numbers in a part of a call; of the change of a file those that change. */
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

/** Two texts without their common beginning and end. */
function changed(one: string, other: string): readonly [string, string] {
  const shorter = Math.min(one.length, other.length);
  let start = 0;
  while (start < shorter && one[start] === other[start]) start++;
  let end = 0;
  while (end < shorter - start && one.at(-1 - end) === other.at(-1 - end)) end++;
  return [one.slice(start, one.length - end), other.slice(start, other.length - end)];
}
