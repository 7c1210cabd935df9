import * as fc from 'fast-check';
import { AnswerReader, maxPieceBytes } from '../../../../src/models/apis/answer.ts';
import type { ModelApi } from '../../../../src/models/apis/model-api.ts';
import { streamErrorOf } from '../../../../src/models/apis/refusals.ts';
import { answers, failedAnswers } from './answers.ts';
import { apis } from './builders.ts';

const eventStream = 'text/event-stream';

/** Feeds `text` in parts that end at `splits`, which are bytes. */
function read(
  api: ModelApi,
  type: string | undefined,
  text: string,
  splits: readonly number[] = [],
) {
  const bytes = Buffer.from(text);
  const reader = new AnswerReader(api, type);
  const ends = [...splits.map((split) => split % (bytes.length + 1)), bytes.length];
  let start = 0;
  for (const end of ends.sort((one, other) => one - other)) {
    reader.push(bytes.subarray(start, end));
    start = end;
  }
  expect(bytes.toString()).toBe(text);
  return reader.end();
}

describe('an answer', () => {
  it.each(answers)(
    'of %s, %s, has its usage, wherever it is split',
    (api, _, type, text, usage) => {
      const expected = { usage, isComplete: true, hasError: false };
      expect(read(api, type, text)).toEqual(expected);
      const length = Buffer.byteLength(text);
      expect(read(api, type, text, [...Array(length).keys()])).toEqual(expected);
      fc.assert(
        fc.property(fc.array(fc.nat(length), { maxLength: 8 }), (splits) => {
          expect(read(api, type, text, splits)).toEqual(expected);
        }),
      );
    },
  );

  it.each(answers)('of %s, %s, has no usage where it breaks off', (api, _, type, text) => {
    const bytes = Buffer.from(text.trimEnd());
    // Two bytes of the last event end it: without them it has not been sent.
    for (let length = 0; length < bytes.length; length += 7) {
      const reader = new AnswerReader(api, type);
      reader.push(bytes.subarray(0, length));
      const { usage, isComplete } = reader.end();
      expect(isComplete).toBe(false);
      const isFinalChat = bytes.toString('utf8', 0, length).includes('"choices":[],"usage":{');
      if (!isFinalChat) expect(usage).toBeUndefined();
    }
  });

  it.each(answers.filter(([, , type]) => type.startsWith(eventStream)))(
    'of %s, %s, may end its lines in any way and have comments and data of many lines',
    (api, _, type, text, usage) => {
      const pretty = text.replaceAll(/^data: (\{.*\})$/gm, (_line, json: string) =>
        JSON.stringify(JSON.parse(json), undefined, 1)
          .split('\n')
          .map((line) => `data:${line.startsWith(' ') ? ` ${line}` : line}`)
          .join('\n'),
      );
      const odd = `\uFEFF: hello\n\nid: 1\nretry\n${pretty}: bye\n\n`;
      for (const end of ['\n', '\r\n', '\r']) {
        const lines = odd.replaceAll('\n', end);
        for (const splits of [[], [...Array(Buffer.byteLength(lines)).keys()]])
          expect(read(api, type, lines, splits)).toEqual({
            usage,
            isComplete: true,
            hasError: false,
          });
      }
    },
  );

  it.each(failedAnswers)('of %s as %s with an error in it has an error: %s', (api, type, text) => {
    expect(read(api, type, text)).toMatchObject({ usage: undefined, hasError: true });
  });

  it('of a chat has no usage where more of it follows the usage, and then breaks off', () => {
    const usage = { prompt_tokens: 1, completion_tokens: 1 };
    const event = (fields: object) => `data: ${JSON.stringify(fields)}\n\n`;
    const early = event({ choices: [], usage });
    const content = event({ choices: [{ index: 0, delta: { content: 'more' } }] });
    expect(read('openai-chat', eventStream, early).usage).toMatchObject({ outputTokens: 1 });
    expect(read('openai-chat', eventStream, early + content).usage).toBeUndefined();
    const whole = `${early}${content}data: [DONE]\n\n`;
    expect(read('openai-chat', eventStream, whole).usage).toBeUndefined();
    expect(
      read('openai-chat', eventStream, `${content}${whole.replace(content, '')}`).usage,
    ).toBeDefined();
  });

  it('of a list that the API does not know has no usage', () => {
    const one = { choices: [{}], usage: { prompt_tokens: 1, completion_tokens: 1 } };
    expect(
      read('openai-chat', 'application/json', JSON.stringify([one, one])).usage,
    ).toBeUndefined();
  });

  it('of a failed response has the usage that it says', () => {
    const response = { status: 'failed', usage: { input_tokens: 1, output_tokens: 2 } };
    const data = JSON.stringify({ type: 'response.failed', response });
    expect(read('openai-responses', eventStream, `data: ${data}\n\n`)).toMatchObject({
      usage: { inputTokens: 1, outputTokens: 2 },
      hasError: true,
    });
  });

  it.each(apis)('of %s that is not one has nothing', (api) => {
    for (const type of [undefined, 'text/html', eventStream])
      for (const text of ['', '<html>{"usage":{}}</html>', 'null', '"a"', '{', '[1,2]', '}{', '\0'])
        expect(read(api, type, text)).toMatchObject({ usage: undefined, hasError: false });
  });

  it.each(apis)('of %s, whatever its bytes are, throws nothing', (api) => {
    const syntax = fc.constantFrom(
      ...'{ } [ ] " , : \\ \n \r'.split(' '),
      ' ',
      'data:',
      'event:',
      '"usage":',
      'null',
      '1',
    );
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc.array(syntax, { maxLength: 60 }).map((list) => Buffer.from(list.join(''))),
    );
    fc.assert(
      fc.property(bytes, fc.constantFrom(eventStream, 'application/json'), (each, type) => {
        const reader = new AnswerReader(api, type);
        reader.push(Buffer.from(each));
        expect(reader.end().usage).toBeUndefined();
      }),
      { numRuns: 500 },
    );
  });

  it('of a chat whose usage comes with each part has that of the end', () => {
    const part = (tokens: number) =>
      `data: {"choices":[{}],"usage":{"prompt_tokens":9,"completion_tokens":${String(tokens)}}}\n\n`;
    const begun = part(1) + part(2);
    expect(read('openai-chat', eventStream, begun).usage).toBeUndefined();
    expect(read('openai-chat', eventStream, `${begun}data: [DONE]\n\n`).usage).toMatchObject({
      outputTokens: 2,
    });
  });

  it('of Gemini ends with the last of its candidates', () => {
    const part = (reasons: readonly (string | undefined)[]) =>
      `data: ${JSON.stringify({
        candidates: reasons.map((finishReason, index) => ({ index, finishReason })),
        usageMetadata: { promptTokenCount: 1 },
      })}\n\n`;
    expect(read('gemini', eventStream, part(['STOP', undefined])).isComplete).toBe(false);
    expect(read('gemini', eventStream, part(['STOP', 'STOP'])).isComplete).toBe(true);
  });

  it('of Gemini to a prompt that it refuses has ended', () => {
    const feedback = { blockReason: 'SAFETY' };
    const text = JSON.stringify({
      promptFeedback: feedback,
      usageMetadata: { promptTokenCount: 7 },
    });
    expect(read('gemini', 'application/json', text)).toMatchObject({
      usage: { inputTokens: 7, outputTokens: 0 },
      isComplete: true,
    });
  });
});

describe('an answer of many megabytes', () => {
  const long = 'A'.repeat(2 * maxPieceBytes);

  it('has the usage that follows a long event', () => {
    const [, , , text, usage] = answers[1];
    const image = `data: {"choices":[{"delta":{"image":"${long}"}}],"usage":"${long}"}\n\n`;
    expect(read('openai-chat', eventStream, image + text)).toEqual({
      usage,
      isComplete: true,
      hasError: false,
    });
  });

  it('has the usage that follows a long field', () => {
    const text = `{"choices":["${long}"],"usage":{"prompt_tokens":1,"completion_tokens":2}}`;
    expect(read('openai-chat', 'application/json', text).usage?.outputTokens).toBe(2);
  });

  it('has no usage if the event with the usage is too long', () => {
    const usage = { input_tokens: 1, output_tokens: 2 };
    const data = JSON.stringify({ type: 'response.completed', response: { output: long, usage } });
    expect(read('openai-responses', eventStream, `data: ${data}\n\n`).usage).toBeUndefined();
  });

  it.each([
    ['an event that never ends', eventStream, 'data: ', 'A'],
    ['data of lines without end', eventStream, '', 'data: A\n'],
    ['a name that never ends', eventStream, '', 'A'],
    ['a type that never ends', eventStream, 'event: ', 'A'],
    ['a field that never ends', 'application/json', '{"usage":"', 'A'],
    ['lists in lists', 'application/json', '', '['],
  ])('keeps a megabyte at most of %s', (_, type, start, part) => {
    const reader = new AnswerReader('openai-chat', type);
    const chunk = Buffer.from(part.repeat(65_536 / part.length));
    const before = process.memoryUsage().arrayBuffers;
    reader.push(Buffer.from(start));
    for (let index = 0; index < 512; index++) reader.push(chunk);
    // A buffer that grows has its former half beside it until it is collected.
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(3 * maxPieceBytes);
    expect(reader.end().usage).toBeUndefined();
  });
});

describe('an event of the relay in a stream that has begun', () => {
  it.each(apis)('is an error of %s', (api) => {
    const text = streamErrorOf(api, 'budget', 'No "money"\nleft');
    expect(read(api, eventStream, text)).toMatchObject({ hasError: true });
    expect(text).not.toContain('\nleft');
  });

  it.each([
    ['', true],
    [': comment\n', true],
    ['data: 1\n\n', true],
    ['data: 1\r\n\r\n', true],
    ['data: 1\n', false],
    ['data: 1', false],
    ['dat', false],
    ['data', false],
    [':', false],
    ['event: a\n', false],
    ['data:\n', false],
  ])('may follow %j: %s', (text, isBetween) => {
    const reader = new AnswerReader('openai-chat', eventStream);
    reader.push(Buffer.from(text));
    expect(reader.isBetweenEvents).toBe(isBetween);
  });

  it('never follows a part of whole JSON', () => {
    expect(new AnswerReader('openai-chat', 'application/json').isBetweenEvents).toBe(false);
  });
});
