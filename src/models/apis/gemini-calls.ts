import type { BodyReader, Fields } from './body-reader.ts';
import { integerOf, isPresent, listOf, objectOf, toolsOf } from './body-reader.ts';
import { BadCallError } from './model-api.ts';
import type { CallFields } from './openai-calls.ts';

export function readGemini(
  reader: BodyReader,
  body: Fields,
  path: { readonly model: string; readonly isStream: boolean },
): CallFields {
  const { model } = body;
  if (isPresent(model) && model !== path.model && model !== `models/${path.model}`)
    throw new BadCallError('The field "model" must be absent or the model of the path.');
  const config = objectOf(reader, body.generationConfig, 'generationConfig') ?? {};
  const modalities = listOf(config.responseModalities);
  if (modalities?.every((modality) => modality === 'TEXT') !== true)
    reader.billsApart('generationConfig.responseModalities');
  for (const name of ['speechConfig', 'imageConfig'] as const)
    if (isPresent(config[name])) reader.billsApart(`generationConfig.${name}`);
  for (const [index, tool] of toolsOf(reader, body.tools).entries())
    for (const [name, value] of Object.entries(tool))
      if (name !== 'functionDeclarations' && value !== null)
        reader.billsApart(`tools[${String(index)}]`, name);
  if (isPresent(body.cachedContent)) {
    reader.refersOutside();
    // Tools may be a part of the cached content.
    reader.billsApart('"cachedContent"');
  }
  if (isPresent(body.systemInstruction)) readContent(reader, body.systemInstruction);
  const contents = listOf(body.contents);
  if (contents === undefined) throw new BadCallError('The field "contents" must be a list.');
  for (const content of contents) readContent(reader, content);
  return {
    model: path.model,
    isStream: path.isStream,
    maxOutputTokens: integerOf(config.maxOutputTokens, 'generationConfig.maxOutputTokens'),
    minOutputTokens: 1,
    answers: integerOf(config.candidateCount, 'generationConfig.candidateCount') ?? 1,
  };
}

/** Fields of a part whose bytes bound their tokens. */
const textFields = new Set([
  ...['text', 'thought', 'thoughtSignature', 'functionCall', 'executableCode'],
  ...['codeExecutionResult', 'partMetadata', 'mediaResolution'],
]);

function readContent(reader: BodyReader, value: unknown): void {
  readParts(reader, reader.fieldsOf(value)?.parts);
}

function readParts(reader: BodyReader, value: unknown, isNested = false): void {
  const parts = listOf(value);
  if (parts === undefined) {
    reader.refersOutside();
    return;
  }
  for (const each of parts) {
    const part = reader.fieldsOf(each);
    if (part === undefined) reader.refersOutside();
    for (const [name, field] of Object.entries(part ?? {}))
      if (name === 'inlineData') readInlineData(reader, field);
      else if (name === 'functionResponse' && !isNested)
        readParts(reader, reader.fieldsOf(field)?.parts, true);
      else if (!textFields.has(name)) reader.refersOutside();
  }
}

function readInlineData(reader: BodyReader, value: unknown): void {
  const type = reader.fieldsOf(value)?.mimeType;
  if (typeof type === 'string' && /^image\/(?:png|jpe?g|webp|heic|heif)$/i.test(type))
    reader.images++;
  else reader.refersOutside();
}
