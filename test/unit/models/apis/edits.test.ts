import * as fc from 'fast-check';
import {
  withMaxOutput,
  withMaxTokens,
  withUsageInStream,
} from '../../../../src/models/apis/edits.ts';
import { ModelApi } from '../../../../src/models/apis/model-api.ts';
import { apis, callOfText } from './builders.ts';

/** JSON as another program writes it: with spaces, escapes and numbers in notations of their own. */
const space = fc.constantFrom('', ' ', '\n', '\t \r\n');
const aString = fc
  .oneof(fc.string(), fc.constantFrom('}', '"max_tokens":1', '\\', 'stream_options', ',:{['))
  .map((text) => JSON.stringify(text));
const anyJson = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom('1.0', '-0', '1e400', 'true', 'null', '12345678901234567890'),
    aString,
    fc.array(tie('value'), { maxLength: 3 }).map((items) => `[ ${items.join(' ,')}]`),
    objectOf(fc.dictionary(fc.constantFrom('a', 'max_tokens', '}'), tie('value'), { maxKeys: 3 })),
  ),
})).value;

function objectOf(fields: fc.Arbitrary<Record<string, string>>): fc.Arbitrary<string> {
  return fc.tuple(fields, space, space).map(
    ([each, before, after]) =>
      `{${before}${Object.entries(each)
        .map(([name, value]) => `${JSON.stringify(name)}${after}:${before}${value}${after}`)
        .join(',')}}`,
  );
}

/** Some of `fields`, or all. */
const partOf = (fields: Readonly<Record<string, fc.Arbitrary<string>>>) =>
  fc
    .tuple(fc.record(fields), fc.subarray(Object.keys(fields)))
    .map(([all, names]): Record<string, string> =>
      Object.fromEntries(Object.entries(all).filter(([name]) => names.includes(name))),
    );

/** Fields around the ones that are edited; those have any place among them. */
const bodyWith = (fields: Readonly<Record<string, fc.Arbitrary<string>>>) =>
  objectOf(
    fc
      .tuple(
        partOf(fields),
        fc.dictionary(fc.constantFrom('a', 'b', 'metadata', 'é😀'), anyJson),
        fc.infiniteStream(fc.nat()),
      )
      .map(([edited, others, order]) => {
        const entries = Object.entries({ ...others, ...edited });
        return Object.fromEntries(
          entries
            .map((entry) => [order.next().value ?? 0, entry] as const)
            .sort(([one], [other]) => one - other)
            .map(([, entry]) => entry),
        );
      }),
  );

/** The parts in which two texts differ. */
function difference(one: string, other: string): readonly [from: string, to: string] {
  let start = 0;
  while (start < one.length && one[start] === other[start]) start++;
  let end = 0;
  const shorter = Math.min(one.length, other.length) - start;
  while (end < shorter && one.at(-1 - end) === other.at(-1 - end)) end++;
  return [one.slice(start, one.length - end), other.slice(start, other.length - end)];
}

type Fields = Record<string, unknown>;
const parse = (text: string): Fields => JSON.parse(text) as Fields;

describe('a request for the usage of a stream', () => {
  it('changes this one field, and no other byte', () => {
    const options = objectOf(
      fc.record(
        {
          include_usage: fc.constantFrom('true', 'false', 'null'),
          include_obfuscation: fc.constantFrom('true', 'false'),
        },
        { requiredKeys: [] },
      ),
    );
    fc.assert(
      fc.property(
        bodyWith({
          stream: fc.constantFrom('true', 'false', 'null'),
          stream_options: fc.oneof(options, fc.constant('null')),
        }),
        (text) => {
          const edited = withUsageInStream(text);
          const before = parse(text);
          if (before['stream'] !== true) expect(edited).toBe(text);
          else {
            const all = (before['stream_options'] ?? {}) as Fields;
            const after = { ...before, stream_options: { ...all, include_usage: true } };
            expect(parse(edited)).toEqual(after);
            expect(difference(text, edited)[0].length).toBeLessThanOrEqual('false'.length);
          }
          expect(withUsageInStream(edited)).toBe(edited);
        },
      ),
      { numRuns: 1_000 },
    );
  });

  it.each([
    ['{"stream":true}', '{"stream_options":{"include_usage":true},"stream":true}'],
    [
      '{ "stream" : true , "stream_options" : { } }',
      '{ "stream" : true , "stream_options" : {"include_usage":true } }',
    ],
    [
      String.raw`{"str\u0065am":true,"stream_options":{"include_usage" :false,"x":1.0}}`,
      String.raw`{"str\u0065am":true,"stream_options":{"include_usage" :true,"x":1.0}}`,
    ],
  ])('in %s is %s', (text, edited) => {
    expect(withUsageInStream(text)).toBe(edited);
  });
});

describe('a maximum of output tokens', () => {
  const limit = fc.constantFrom('1', '50', '100', '1000', '1e3', 'null');
  const fieldsOf: Readonly<Record<ModelApi, readonly string[]>> = {
    'openai-chat': ['max_tokens', 'max_completion_tokens'],
    'openai-responses': ['max_output_tokens'],
    'anthropic-messages': ['max_tokens'],
    gemini: [],
  };

  it.each(apis.filter((api) => api !== ModelApi.Gemini))(
    'is lowered or added in a body of %s, and no other byte changes',
    (api) => {
      const fields = fieldsOf[api];
      fc.assert(
        fc.property(
          bodyWith(Object.fromEntries(fields.map((name) => [name, limit]))),
          fc.constantFrom('max_tokens', 'max_completion_tokens'),
          (text, added) => {
            const edited = withMaxOutput(api, text, 100, added);
            const before = parse(text);
            const present = fields.filter((name) => typeof before[name] === 'number');
            const first = api === ModelApi.OpenAiChat ? added : (fields[0] ?? '');
            const lowered = (present.length === 0 ? [first] : present).map((name) => [
              name,
              Math.min(100, Number(before[name] ?? 100)),
            ]);
            expect(parse(edited)).toEqual({ ...before, ...Object.fromEntries(lowered) });
            if (present.length < 2)
              expect(difference(text, edited)[0].length).toBeLessThanOrEqual('null'.length);
            expect(withMaxOutput(api, edited, 100, added)).toBe(edited);
          },
        ),
        { numRuns: 1_000 },
      );
    },
  );

  it('is lowered or added in a body of Gemini, in each spelling', () => {
    const config = fc.constantFrom('generationConfig', 'generation_config');
    const field = fc.constantFrom('maxOutputTokens', 'max_output_tokens');
    const value = fc
      .tuple(field, limit)
      .chain(([name, each]) =>
        fc.oneof(
          objectOf(fc.record({ [name]: fc.constant(each), topP: fc.constant('1.0') })),
          objectOf(fc.record({ topP: fc.constant('1.0') }, { requiredKeys: [] })),
          fc.constant('null'),
        ),
      );
    const body = fc
      .tuple(config, value, fc.boolean())
      .chain(([name, each, isThere]) =>
        bodyWith(isThere ? { [name]: fc.constant(each), contents: fc.constant('[]') } : {}),
      );
    fc.assert(
      fc.property(body, (text) => {
        const edited = withMaxOutput(ModelApi.Gemini, text, 100);
        const before = callOfText(ModelApi.Gemini, text).maxOutputTokens;
        const { maxOutputTokens } = callOfText(ModelApi.Gemini, edited);
        expect(maxOutputTokens).toBe(Math.min(100, before ?? 100));
        expect(difference(text, edited)[0].length).toBeLessThanOrEqual('null'.length);
        expect(withMaxOutput(ModelApi.Gemini, edited, 100)).toBe(edited);
      }),
      { numRuns: 1_000 },
    );
  });

  it.each<[ModelApi, string, string]>([
    ['openai-chat', '{}', '{"max_completion_tokens":5}'],
    ['openai-chat', '{ "max_tokens" : 9 }', '{ "max_tokens" : 5 }'],
    [
      'openai-chat',
      '{"max_completion_tokens":4,"max_tokens":9}',
      '{"max_completion_tokens":4,"max_tokens":5}',
    ],
    ['openai-responses', '{"max_output_tokens":4}', '{"max_output_tokens":4}'],
    [
      'anthropic-messages',
      String.raw`{"a":"\"max_tokens\":1","max\u005ftokens":1e3}`,
      String.raw`{"a":"\"max_tokens\":1","max\u005ftokens":5}`,
    ],
    ['gemini', '{"contents":[]}', '{"generationConfig":{"maxOutputTokens":5},"contents":[]}'],
    [
      'gemini',
      '{"generation_config":{"max_output_tokens":9}}',
      '{"generation_config":{"max_output_tokens":5}}',
    ],
    ['gemini', '{"generation_config":null}', '{"generation_config":{"maxOutputTokens":5}}'],
  ])('of 5 in %s %s', (api, text, edited) => {
    expect(withMaxOutput(api, text, 5)).toBe(edited);
  });
});

it.each([
  ['{"max_completion_tokens":4}', '{"max_tokens":4}'],
  [
    String.raw`{ "a":{"max_completion_tokens":1}, "max\u005fcompletion_tokens" : 4 }`,
    String.raw`{ "a":{"max_completion_tokens":1}, "max_tokens" : 4 }`,
  ],
  ['{"max_completion_tokens":4,"max_tokens":9}', '{"max_completion_tokens":4,"max_tokens":9}'],
  ['{"max_tokens":null,"max_completion_tokens":4}', '{"max_tokens":4,"max_completion_tokens":4}'],
  ['{"max_completion_tokens":null}', '{"max_completion_tokens":null}'],
  ['{"max_tokens":9}', '{"max_tokens":9}'],
  ['{}', '{}'],
])('the maximum of %s is named max_tokens: %s', (text, edited) => {
  expect(withMaxTokens(text)).toBe(edited);
});
