import type { TestedMutant } from './tested-mutant.ts';

const tests = 'test/unit/models/apis';
const scan = { file: 'src/models/apis/json-scan.ts', test: `${tests}/call.test.ts` };
const body = { file: 'src/models/apis/body-reader.ts', test: `${tests}/call.test.ts` };
const openai = { file: 'src/models/apis/openai-calls.ts', test: `${tests}/call.test.ts` };
const anthropic = { file: 'src/models/apis/anthropic-calls.ts', test: `${tests}/call.test.ts` };
const gemini = { file: 'src/models/apis/gemini-calls.ts', test: `${tests}/call.test.ts` };
const edits = { file: 'src/models/apis/edits.ts', test: `${tests}/edits.test.ts` };
const usage = { file: 'src/models/apis/usage.ts', test: `${tests}/usage.test.ts` };
const answer = { file: 'src/models/apis/answer.ts', test: `${tests}/answer.test.ts` };
const events = { file: 'src/models/apis/sse-events.ts', test: `${tests}/answer.test.ts` };
const pieces = { file: 'src/models/apis/json-pieces.ts', test: `${tests}/answer.test.ts` };

/** Mistakes in what calls of models ask for, and in what their answers have used. */
export const modelApiMutants: Readonly<Record<string, TestedMutant>> = {
  'a body may have a name twice': {
    ...scan,
    from: 'if (names.few.includes(name)) return true;',
    to: '',
    name: 'a body that two parsers may read differently',
  },
  'an object of many names may have one of them twice': {
    ...scan,
    from: 'if (names.many.has(name)) return true;',
    to: '',
    name: 'is refused where a name of many occurs twice',
  },
  'a name with an escape is another name than without': {
    ...scan,
    from: "token.includes('\\\\') ? String(JSON.parse(token)) : token.slice(1, -1)",
    to: 'token.slice(1, -1)',
    name: 'a body that two parsers may read differently',
  },
  'a string ends at a quote after any backslash but one': {
    ...scan,
    from: 'if ((end - before) % 2 === 1) return end;',
    to: 'if (end - before !== 2) return end;',
    name: 'is refused for each name that JSON.parse would have replaced',
  },
  'a body may be nested as deeply as an owner likes': {
    ...scan,
    from: 'if (levels.length === maxDepth)',
    to: 'if (levels.length === Infinity)',
    name: 'a body that is wrong',
  },
  'a body may have any number of fields': {
    ...scan,
    from: 'if (++values > maxValues)',
    to: 'if (++values > Infinity)',
    name: 'a body that is wrong',
  },
  'a name in another case is ignored, which a provider may accept': {
    ...body,
    from: 'if (expected !== undefined) throw new BadCallError',
    to: "if (expected === '') throw new BadCallError",
    name: 'a body that two parsers may read differently',
  },
  'letters that Go compares as equal are others': {
    ...body,
    from: 'name.toUpperCase().toLowerCase()',
    to: 'name.toLowerCase()',
    name: 'a body that two parsers may read differently',
  },
  'both spellings of a limit are accepted': {
    ...body,
    from: 'else if (name in fields)',
    to: 'else if (spelled in fields)',
    name: 'a body that two parsers may read differently',
  },
  'the spelling of a limit with underscores is ignored': {
    ...body,
    from: '[withUnderscores(name), name] as const',
    to: "[withUnderscores(name), ''] as const",
    name: 'generation_config',
  },
  'a call may name further models': {
    ...body,
    from: 'for (const name of otherModels) if (isPresent(body[name]))',
    to: 'for (const name of otherModels) if (isPresent(name in otherModels))',
    name: 'is refused by the name of its field',
  },
  'a limit may be a fraction': {
    ...body,
    from: "typeof value === 'number' && Number.isSafeInteger(value) && value >= minimum",
    to: "typeof value === 'number' && value >= minimum",
    name: 'is refused by the name of its field',
  },
  'the lower of two limits counts': {
    ...openai,
    from: 'Math.max(...limits)',
    to: 'Math.min(...limits)',
    name: 'reads the larger of two limits',
  },
  'the older of two limits is missed': {
    ...openai,
    from: "['max_tokens', 'max_completion_tokens'] as const",
    to: "['max_completion_tokens'] as const",
    name: 'reads max_tokens',
  },
  'a tool in a namespace is missed': {
    ...openai,
    from: "if (tool.type === 'namespace') readTools(reader, tool.tools, `${at}.tools`);",
    to: "if (tool.type === 'namespace') continue;",
    name: 'a call that costs more than its tokens',
  },
  'a tool that the input adds is missed': {
    ...openai,
    from: 'if (isPresent(item.tools)) readTools(reader, item.tools, `${at}.tools`);',
    to: '',
    name: 'a call that costs more than its tokens',
  },
  'a tool of tomorrow runs at the client': {
    ...anthropic,
    from: "if (typeof type !== 'string' || !clientTools.test(type))",
    to: "if (typeof type !== 'string' || type.startsWith('web'))",
    name: 'a call that costs more than its tokens',
  },
  'a PDF has as many tokens as bytes': {
    ...anthropic,
    from: "else if (source?.type !== 'text') reader.refersOutside();",
    to: "else if (source?.type === 'url') reader.refersOutside();",
    name: 'is not one of anthropic-messages',
  },
  'a video has as many tokens as bytes': {
    ...gemini,
    from: 'else reader.refersOutside(); }',
    to: 'else reader.images++; }',
    name: 'is not one of gemini',
  },
  'a maximum is raised': {
    ...edits,
    from: '<= tokens) return object.text;',
    to: '< 0) return object.text;',
    name: 'a maximum of output tokens',
  },
  'a maximum is added beside the one in the other spelling': {
    ...edits,
    from: "const names = ['maxOutputTokens', 'max_output_tokens'];",
    to: "const names = ['maxOutputTokens'];",
    name: 'a maximum of output tokens',
  },
  'the other options of a stream are lost': {
    ...edits,
    from: "withField(objectAt(text, options.start), 'include_usage', 'true')",
    to: `withField(body, 'stream_options', '{"include_usage":true}')`,
    name: 'a request for the usage of a stream',
  },
  'cached tokens are not counted as input': {
    ...usage,
    from: "required(usage['input_tokens']) + cachedInputTokens + cacheWriteTokens",
    to: "required(usage['input_tokens'])",
    name: 'of anthropic-messages with',
  },
  'cached tokens of a chat are ignored': {
    ...usage,
    from: "const details = objectOf(usage['prompt_tokens_details']);",
    to: "const details = objectOf(usage['details']);",
    name: 'of openai-chat with',
  },
  'thinking is free': {
    ...usage,
    from: "countOf(usage['candidatesTokenCount']) + countOf(usage['thoughtsTokenCount'])",
    to: "countOf(usage['candidatesTokenCount'])",
    name: 'of gemini with',
  },
  'reasoning that only the total counts is free': {
    ...usage,
    from: "Math.max(outputTokens, countOf(usage['total_tokens']) - inputTokens)",
    to: 'outputTokens',
    name: 'of openai-chat with',
  },
  'a usage without its counts is free': {
    ...usage,
    from: 'value === undefined || value === null ? Number.NaN : countOf(value)',
    to: 'countOf(value)',
    name: 'counts as absent without',
  },
  'more may be cached than there was input': {
    ...usage,
    from: 'usage.cachedInputTokens + usage.cacheWriteTokens <= usage.inputTokens &&',
    to: '',
    name: 'counts as absent where more is cached than there was',
  },
  'the usage of later events is added': {
    ...answer,
    from: 'this.#usage = { ...this.#usage, ...Object.fromEntries(counts) };',
    to: `this.#usage = {
      ...this.#usage,
      ...Object.fromEntries(
        counts.map(([name, count]) => [name, Number(count) + Number(this.#usage?.[name] ?? 0)]),
      ),
    };`,
    name: 'of anthropic-messages, stream, has its usage',
  },
  'a count that a later event has as null is lost': {
    ...answer,
    from: '.filter(([, count]) => count !== null)',
    to: '',
    name: 'of anthropic-messages, stream, has its usage',
  },
  'a stream that broke off has the usage of its start': {
    ...answer,
    from: 'const isFinal = isComplete || this.#isFinalUsage;',
    to: 'const isFinal = this.#usage !== undefined;',
    name: 'has no usage where it breaks off',
  },
  'a usage with each part of a chat counts before the last': {
    ...answer,
    from: "Array.isArray(value['choices']) && value['choices'].length === 0",
    to: 'true',
    name: 'of a chat whose usage comes with each part',
  },
  'an error in a stream goes unnoticed': {
    ...answer,
    from: "if (value['type'] === 'response.failed') this.#hasError = true;",
    to: '',
    name: 'with an error in it has an error',
  },
  'a character that is split is lost': {
    ...events,
    from: 'this.#take(chunk, start, chunk.length); }',
    to: '}',
    name: 'has its usage, wherever it is split',
  },
  'a line feed after a carriage return ends a second line': {
    ...events,
    from: 'this.#isAfterReturn = code === carriageReturn;',
    to: '',
    name: 'may end its lines in any way',
  },
  'lines of data are joined without a line feed, and begin with their space': {
    ...events,
    from: 'this.#isValueStart && chunk[start] === space ? start + 1 : start',
    to: 'start',
    name: 'of openai-chat, stream, has its usage',
  },
  'a quote in a string ends it': {
    ...pieces,
    from: 'else if (code === backslash) this.#isEscaped = true;',
    to: '',
    name: 'has its usage, wherever it is split',
  },
  'an answer grows in memory without end': {
    file: 'src/models/apis/bounded-bytes.ts',
    test: `${tests}/answer.test.ts`,
    from: 'if (length > this.#maxBytes) {',
    to: 'if (length > 64 * this.#maxBytes) {',
    name: 'keeps a megabyte at most',
  },
};
