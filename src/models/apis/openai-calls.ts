import type { BodyReader, Fields } from './body-reader.ts';
import { booleanOf, integerOf, isPresent, listOf, objectOf, toolsOf } from './body-reader.ts';
import { BadCallError } from './model-api.ts';

/** The fields of a call that have other names and places in each API. */
export interface CallFields {
  readonly model: unknown;
  readonly isStream: boolean;
  readonly maxOutputTokens: number | undefined;
  readonly minOutputTokens: number;
  readonly answers: number;
}

export function readChat(reader: BodyReader, body: Fields): CallFields {
  const options = objectOf(reader, body.stream_options, 'stream_options');
  booleanOf(options?.include_usage, 'stream_options.include_usage');
  const limits = (['max_tokens', 'max_completion_tokens'] as const)
    .map((name) => integerOf(body[name], name))
    .filter((limit) => limit !== undefined);
  for (const [index, tool] of toolsOf(reader, body.tools).entries())
    if (tool.type !== 'function' && tool.type !== 'custom')
      reader.billsApart(`tools[${String(index)}].type`, tool.type ?? null);
  const modalities = listOf(body.modalities);
  if (modalities?.every((modality) => modality === 'text') !== true)
    reader.billsApart('"modalities"');
  readMessages(reader, body.messages, (message) => {
    if (isPresent(message.audio)) reader.refersOutside();
    readContent(reader, message.content);
  });
  return {
    model: body.model,
    isStream: booleanOf(body.stream, 'stream'),
    // Which of the two a provider obeys depends on its model.
    maxOutputTokens: limits.length === 0 ? undefined : Math.max(...limits),
    minOutputTokens: 1,
    answers: integerOf(body.n, 'n') ?? 1,
  };
}

/** Calls `read` with each message of a list that must be there. */
export function readMessages(
  reader: BodyReader,
  value: unknown,
  read: (message: Fields) => void,
): void {
  if (!Array.isArray(value)) throw new BadCallError('The field "messages" must be a list.');
  for (const each of value) {
    const message = reader.fieldsOf(each);
    if (message === undefined)
      throw new BadCallError('The field "messages" must be a list of objects.');
    read(message);
  }
}

const texts = new Set([
  ...['text', 'refusal', 'input_text', 'output_text', 'summary_text', 'reasoning_text'],
  'reasoning',
]);

/** Reads text, or a list of parts, of a message or of the result of a tool. */
function readContent(reader: BodyReader, value: unknown): void {
  if (value === undefined || value === null || typeof value === 'string') return;
  const parts = listOf(value);
  if (parts === undefined) {
    reader.refersOutside();
    return;
  }
  for (const each of parts) {
    const part = typeof each === 'string' ? { type: 'text' } : reader.fieldsOf(each);
    if (part?.type === 'image_url' || part?.type === 'input_image') reader.images++;
    else if (typeof part?.type !== 'string' || !texts.has(part.type)) reader.refersOutside();
  }
}

export function readResponses(reader: BodyReader, body: Fields): CallFields {
  for (const name of ['previous_response_id', 'conversation', 'prompt'] as const)
    if (isPresent(body[name])) reader.refersOutside();
  if (isPresent(body.context_management)) reader.billsApart('"context_management"');
  const mode = objectOf(reader, body.reasoning, 'reasoning')?.mode;
  if (isPresent(mode) && mode !== 'standard') reader.hasTier('reasoning.mode', mode);
  readTools(reader, body.tools, 'tools');
  readContent(reader, body.instructions);
  readInput(reader, body.input);
  return {
    model: body.model,
    isStream: booleanOf(body.stream, 'stream'),
    maxOutputTokens: integerOf(body.max_output_tokens, 'max_output_tokens'),
    minOutputTokens: minResponseTokens,
    answers: 1,
  };
}

/** Minimum of `max_output_tokens`, as OpenAI documents it. */
const minResponseTokens = 16;

/** Tools that the client of a response runs. All others, known or not, run at the provider. */
const clientTools = new Set(['function', 'custom', 'local_shell', 'apply_patch']);

function readTools(reader: BodyReader, value: unknown, path: string): void {
  for (const [index, tool] of toolsOf(reader, value).entries()) {
    const at = `${path}[${String(index)}]`;
    if (tool.type === 'namespace') readTools(reader, tool.tools, `${at}.tools`);
    else if (tool.type === 'tool_search' && tool.execution === 'client') continue;
    else if (tool.type === 'shell') {
      const environment = objectOf(reader, tool.environment, `${at}.environment`);
      if (environment !== undefined && environment.type !== 'local')
        reader.billsApart(`${at}.environment.type`, environment.type ?? null);
    } else if (typeof tool.type !== 'string' || !clientTools.has(tool.type))
      reader.billsApart(`${at}.type`, tool.type ?? null);
  }
}

/** Items whose own fields are text in the body. */
const textItems = new Set([
  ...['function_call', 'custom_tool_call', 'local_shell_call', 'local_shell_call_output'],
  ...['shell_call', 'shell_call_output', 'apply_patch_call', 'apply_patch_call_output'],
  ...['reasoning', 'tool_search_call'],
]);

function readInput(reader: BodyReader, value: unknown): void {
  if (typeof value === 'string' || value === undefined || value === null) return;
  const items = listOf(value);
  if (items === undefined) {
    reader.refersOutside();
    return;
  }
  for (const [index, each] of items.entries()) {
    const item = reader.fieldsOf(each) ?? {};
    const at = `input[${String(index)}]`;
    switch (item.type) {
      case undefined:
      case 'message':
        if (item.role === undefined) reader.refersOutside();
        readContent(reader, item.content);
        break;
      case 'function_call_output':
      case 'custom_tool_call_output':
        readContent(reader, item.output);
        break;
      case 'additional_tools':
      case 'tool_search_output':
        readTools(reader, item.tools, `${at}.tools`);
        break;
      case 'compaction_trigger':
        reader.billsApart(`${at}.type`, item.type);
        break;
      default:
        if (typeof item.type !== 'string' || !textItems.has(item.type)) reader.refersOutside();
        if (isPresent(item.tools)) readTools(reader, item.tools, `${at}.tools`);
    }
  }
}
