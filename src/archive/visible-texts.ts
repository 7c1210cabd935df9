import { isEvent, isSearched } from '../agent/event-kinds.ts';

/** Fields of programs: names of things, numbers of them, and what another field says again. */
const hiddenFields: ReadonlySet<string> = new Set([
  ...['kind', 'type', 'role', 'source', 'timestamp', 'status', 'key', 'tool_kind', 'origin'],
  ...['security_risk', 'rejection_source', 'activated_skills', 'extended_content', 'metadata'],
  // The action of the event has its arguments.
  'tool_call',
  // Bytes
  ...['image_urls', 'signature', 'encrypted_content', 'call_hash', 'secret_marker'],
]);
const idField = /(?:^|_)ids?$|[a-z]Ids?$/;
/** Parts of a content of the Agent Client Protocol that are bytes. */
const hiddenParts: ReadonlySet<unknown> = new Set(['image', 'audio', 'redacted_thinking']);

/**
 * The texts of an event that people read: messages, thoughts, commands, outputs, paths, and not the
 * names of its fields, or ids. Agents are not trusted, so every field may be anything.
 * @param event The parsed JSON of an event, of at most 256 levels.
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

/** The same for the JSON of an event; none for other texts. */
export function visibleTextsIn(json: Buffer): readonly string[] {
  try {
    return visibleTexts(JSON.parse(json.toString()));
  } catch {
    return [];
  }
}
