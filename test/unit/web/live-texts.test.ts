import { plainOf } from '../../../src/web/live-texts.ts';
import {
  joinedTexts,
  maxLiveLength,
  writtenIn,
  type LiveText,
} from '../../../src/web/live-texts.ts';

const item = (from: number, text: string, fields: { readonly id?: string } = {}) => ({
  id: 'a',
  kind: 'output' as const,
  tool_call_id: 'call',
  elapsed_ms: 5,
  from,
  end: from + text.length,
  text,
  ...fields,
});
const joined = (...parts: readonly ReturnType<typeof item>[]): readonly LiveText[] =>
  parts.reduce<readonly LiveText[]>((known, part) => joinedTexts(known, { items: [part] }), []);

describe('the parts of a text that grows', () => {
  it('join', () => {
    expect(joined(item(0, 'one\n'), item(4, 'two\n'))).toEqual([
      {
        id: 'a',
        kind: 'output',
        call: 'call',
        elapsedMs: 5,
        end: 8,
        skipped: 0,
        text: 'one\ntwo\n',
      },
    ]);
  });

  it.each<[string, readonly ReturnType<typeof item>[], string]>([
    ['a first part that is no beginning', [item(1200, 'b')], '… 1,200 characters not shown …\nb'],
    [
      'what was missed between two parts',
      [item(0, 'a'), item(1001, 'b')],
      'a\n… 1,000 characters skipped …\nb',
    ],
    ['a part that is sent again', [item(0, 'ab'), item(0, 'abc')], 'abc'],
    ['another text', [item(0, 'ab'), item(0, 'c', { id: 'b' })], 'c'],
  ])('show %s', (_case, parts, shown) => {
    expect(joined(...parts).map(plainOf)).toEqual([shown]);
  });

  it('are bounded together, and begin with a line', () => {
    const line = `${'x'.repeat(59)}\n`;
    const parts = Array.from({ length: 100 }, (_, index) => item(index * 6000, line.repeat(100)));
    const [text] = joined(...parts);
    expect(text?.text.length).toBeLessThanOrEqual(maxLiveLength);
    expect(text?.text.length).toBeGreaterThan(maxLiveLength - line.length);
    expect(text?.text.startsWith('xxx')).toBe(true);
    expect((text?.skipped ?? 0) + (text?.text.length ?? 0)).toBe(600_000);
  });

  it('are over once the service does not have them', () => {
    expect(joinedTexts(joined(item(0, 'a')), { items: [] })).toEqual([]);
  });
});

it('has at most one thought and one message that are written', () => {
  const texts = (['message', 'thought', 'output', 'message', 'message'] as const).map(
    (kind, index) => ({ ...item(0, index === 4 ? '' : 'text', { id: `${index}` }), kind }),
  );
  expect(writtenIn(joinedTexts([], { items: texts })).map(({ id }) => id)).toEqual(['1', '3']);
});

describe('the text of a terminal', () => {
  it.each<[string, string, string]>([
    ['colours', '\x1b[1;31merror\x1b[0m: x', 'error: x'],
    ['titles', '\x1b]0;title\x07text\x1b]8;;http://a\x1b\\link', 'textlink'],
    ['a progress bar', 'get 10%\rget 20%\rget 30%\ndone', 'get 30%\ndone'],
    ['line ends of DOS', 'a\r\nb\r\n', 'a\nb\n'],
    ['other control characters', 'a\x00b\x08\x9b31mc\td', 'ab31mc\td'],
    ['an end within a sequence', 'a\x1b', 'a'],
    ['HTML', '<img src=x>', '<img src=x>'],
  ])('is plain without %s', (_case, text, plain) => {
    expect(plainOf({ text, skipped: 0 })).toBe(plain);
  });

  it.each(['\x1b]', '\r', '\x1b[', '\x1b[0;'])('takes no time for many of %j', (part) => {
    const began = performance.now();
    plainOf({ text: part.repeat(maxLiveLength / part.length), skipped: 0 });
    expect(performance.now() - began).toBeLessThan(200);
  });
});
