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
    name: 'a body that two parsers may read differently',
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
  'a character that is split is lost': {
    ...events,
    from: 'this.#take(chunk, start, chunk.length); }',
    to: '}',
    name: 'has its usage, wherever it is split',
  },
  'an answer grows in memory without end': {
    file: 'src/models/apis/bounded-bytes.ts',
    test: `${tests}/answer.test.ts`,
    from: 'this.#maxBytes = maxBytes;',
    to: 'this.#maxBytes = 64 * maxBytes;',
    name: 'keeps a megabyte at most',
  },
};
