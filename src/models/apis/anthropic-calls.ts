import type { BodyReader, Fields } from './body-reader.ts';
import { booleanOf, integerOf, isPresent, listOf, objectOf, toolsOf } from './body-reader.ts';
import { BadCallError } from './model-api.ts';
import { type CallFields, readMessages } from './openai-calls.ts';

/** Tools that the client runs, by the type that Anthropic has defined. */
const clientTools =
  /^(?:custom|(?:bash|text_editor|computer|memory|computer_toolset|browser_toolset)_\d{8})$/;

export function readAnthropic(reader: BodyReader, body: Fields): CallFields {
  const maxTokens = integerOf(body.max_tokens, 'max_tokens', 0);
  if (maxTokens === undefined)
    throw new BadCallError('The field "max_tokens" is required; it must be an integer from 0.');
  if (isPresent(body.thread)) reader.refersOutside();
  readContextManagement(reader, body.context_management);
  for (const [index, tool] of toolsOf(reader, body.tools).entries()) {
    const type = tool.type ?? 'custom';
    if (typeof type !== 'string' || !clientTools.test(type))
      reader.billsApart(`tools[${String(index)}].type`, type);
  }
  readBlocks(reader, body.system);
  readMessages(reader, body.messages, ({ content }) => {
    readBlocks(reader, content);
  });
  const thinking = objectOf(reader, body.thinking, 'thinking');
  const budget = integerOf(thinking?.budget_tokens, 'thinking.budget_tokens', 0) ?? 0;
  return {
    model: body.model,
    isStream: booleanOf(body.stream, 'stream'),
    maxOutputTokens: maxTokens,
    // Thinking must end before the limit.
    minOutputTokens: budget + 1,
    answers: 1,
  };
}

/** A provider that shortens the context itself bills the call that summarises it apart. */
function readContextManagement(reader: BodyReader, value: unknown): void {
  const edits = listOf(objectOf(reader, value, 'context_management')?.edits);
  const types = edits?.map((edit) => reader.fieldsOf(edit)?.type);
  const other = types?.find((type) => typeof type !== 'string' || !type.startsWith('clear_'));
  if (types === undefined || other !== undefined)
    reader.billsApart('context_management.edits', other);
}

const textBlocks = new Set([
  ...['text', 'thinking', 'redacted_thinking', 'tool_use', 'search_result', 'tool_reference'],
]);

/** Reads text, or a list of blocks; `isNested` in the result of a tool, which has none itself. */
function readBlocks(reader: BodyReader, value: unknown, isNested = false): void {
  if (value === undefined || value === null || typeof value === 'string') return;
  const blocks = listOf(value);
  if (blocks === undefined) {
    reader.refersOutside();
    return;
  }
  for (const each of blocks) {
    const block = reader.fieldsOf(each);
    if (block?.type === 'image') reader.images++;
    else if (block?.type === 'document') readDocument(reader, block.source);
    else if (block?.type === 'tool_result' && !isNested) readBlocks(reader, block.content, true);
    else if (block?.type === 'tool_addition' || isPresent(block?.tool_changes))
      reader.billsApart('messages[].content[].type', block?.type);
    else if (typeof block?.type !== 'string' || !textBlocks.has(block.type)) reader.refersOutside();
  }
}

/** A page of a PDF can have more tokens than the compressed page has bytes. */
function readDocument(reader: BodyReader, value: unknown): void {
  const source = reader.fieldsOf(value);
  if (source?.type === 'content') readBlocks(reader, source.content, true);
  else if (source?.type !== 'text') reader.refersOutside();
}
