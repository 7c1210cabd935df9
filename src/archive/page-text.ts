/** A page of events as an agent sends it: the texts of its items, and the id of the next page. */
export interface PageText {
  readonly items: readonly string[];
  readonly next: string | undefined;
}

/**
 * Splits a page without writing its items anew: numbers that JavaScript does not represent, and the
 * order of fields, stay those of the agent. Undefined for a text that is no page. The items are not
 * validated: each of them may be no JSON.
 */
export function splitPage(text: string): PageText | undefined {
  const root = membersOf(text);
  const items = root?.get('items');
  if (items === undefined) return undefined;
  const elements = elementsOf(items);
  const next = valueOf(root?.get('next_page_id') ?? 'null');
  if (elements === undefined) return undefined;
  return { items: elements, next: typeof next === 'string' && next !== '' ? next : undefined };
}

function valueOf(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

/** The members of an object, as texts; undefined where the text is no object. */
function membersOf(text: string): ReadonlyMap<string, string> | undefined {
  const parts = partsOf(text, '{', '}');
  if (parts === undefined) return undefined;
  const members = new Map<string, string>();
  for (const part of parts) {
    const end = part.startsWith('"') ? endOfString(part, 0) : -1;
    const name = valueOf(part.slice(0, end));
    const rest = part.slice(end).trimStart();
    if (end === -1 || typeof name !== 'string' || !rest.startsWith(':')) return undefined;
    members.set(name, rest.slice(1).trim());
  }
  return members;
}

const elementsOf = (text: string): readonly string[] | undefined => partsOf(text, '[', ']');

/** The texts between brackets that commas of the outermost level separate. */
function partsOf(json: string, open: string, close: string): readonly string[] | undefined {
  const text = json.trim();
  if (!text.startsWith(open) || !text.endsWith(close) || text.length < 2) return undefined;
  const parts: string[] = [];
  const special = /["[\]{},]/g;
  let depth = 0;
  let start = 1;
  const end = text.length - 1;
  special.lastIndex = 1;
  for (let found = special.exec(text); found !== null; found = special.exec(text)) {
    const at = found.index;
    if (at >= end) break;
    const [character] = found;
    if (character === '"') {
      const after = endOfString(text, at);
      if (after === -1) return undefined;
      special.lastIndex = after;
    } else if (character === '[' || character === '{') depth++;
    else if (character === ']' || character === '}') depth--;
    else if (depth === 0) {
      parts.push(text.slice(start, at).trim());
      start = at + 1;
    }
    if (depth < 0) return undefined;
  }
  if (depth !== 0) return undefined;
  const last = text.slice(start, end).trim();
  if (last !== '' || parts.length > 0) parts.push(last);
  return parts;
}

/** The index behind the string that begins at `start`; -1 where the string does not end. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (text[end - 1 - backslashes] === '\\') backslashes++;
    if (backslashes % 2 === 0) return end + 1;
  }
  return -1;
}
