import { isUtf8 } from 'node:buffer';
import { readAnthropic } from './anthropic-calls.ts';
import { BodyReader, type Fields } from './body-reader.ts';
import { readGemini } from './gemini-calls.ts';
import { refuseAmbiguous } from './json-scan.ts';
import { BadCallError, ModelApi, type ModelCall, type Operation } from './model-api.ts';
import { type CallFields, readChat, readResponses } from './openai-calls.ts';

type Generate = Extract<Operation, { kind: 'generate' }>;

/** Maximum length of a model's name. */
const maxModelLength = 256;

/**
 * Reads what a call asks for. The provider reads the same bytes with another parser, so a body that
 * two parsers may read differently is refused: a name twice in any object, a name in another case
 * or spelling, bytes that are not UTF-8. Throws BadCallError.
 */
export function readCall(
  operation: Generate,
  body: Buffer,
): { readonly call: ModelCall; readonly text: string } {
  if (!isUtf8(body)) throw new BadCallError('The body must be UTF-8.');
  const text = body.toString();
  refuseAmbiguous(text);
  const reader = new BodyReader(operation.api);
  const fields = readFields(reader, reader.bodyOf(parsed(text)), operation);
  const { model } = fields;
  if (typeof model !== 'string' || model === '' || model.length > maxModelLength)
    throw new BadCallError(
      `The field "model" must be text of 1 to ${String(maxModelLength)} characters.`,
    );
  // LiteLLM asks each model of a list.
  if (model.includes(',')) throw new BadCallError('The field "model" must name one model.');
  const { images, isSelfContained, runsAtProvider, tier, surcharge } = reader;
  const found = { images, isSelfContained, runsAtProvider, tier, surcharge };
  return { call: { ...fields, ...found, api: operation.api, model }, text };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The words of the parser contain parts of the body.
    throw new BadCallError('The body must be valid JSON.');
  }
}

function readFields(
  reader: BodyReader,
  body: Fields,
  { api, pathModel, isStream }: Generate,
): CallFields {
  switch (api) {
    case ModelApi.OpenAiChat:
      return readChat(reader, body);
    case ModelApi.OpenAiResponses:
      return readResponses(reader, body);
    case ModelApi.AnthropicMessages:
      return readAnthropic(reader, body);
    case ModelApi.Gemini:
      return readGemini(reader, body, { model: pathModel ?? '', isStream: isStream === true });
  }
}
