import * as fc from 'fast-check';
import { parseExactly } from '../../../src/agent/exact-json.ts';

/** JSON as a program of another language may write it, without spaces. */
const aNumber = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
  fc.constantFrom('9007199254740993', '-0', '0.0', '1.0', '1e400', '-1E-400', '1e-07', '1.50'),
);
const aText = fc.oneof(fc.string(), fc.constantFrom('1.0', '"1e400', '\\', '\\"1.0'));
const { anyJson } = fc.letrec<{ anyJson: string }>((tie) => ({
  anyJson: fc.oneof(
    { maxDepth: 3 },
    aNumber,
    aText.map((text) => JSON.stringify(text)),
    fc.constantFrom('true', 'false', 'null'),
    fc.array(tie('anyJson'), { maxLength: 4 }).map((items) => `[${items.join()}]`),
    fc
      .dictionary(
        fc.oneof(fc.constantFrom('__proto__', 'a'), fc.stringMatching(/^x\d{1,3}$/)),
        tie('anyJson'),
        { maxKeys: 3 },
      )
      .map(
        (fields) =>
          `{${Object.entries(fields)
            .map(([name, value]) => `${JSON.stringify(name)}:${value}`)
            .join()}}`,
      ),
  ),
}));

describe('parseExactly', () => {
  it('keeps each number as it was', () => {
    fc.assert(
      fc.property(anyJson, (text) => {
        expect(JSON.stringify(parseExactly(text))).toBe(text);
      }),
      { numRuns: 2_000 },
    );
  });

  it('returns what JSON.parse returns where all numbers are exact', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value, null, 2);
        expect(parseExactly(text)).toEqual(JSON.parse(text));
      }),
    );
  });

  it.each(['1.0.0', '[1e5e5]', '[01.0]', '[-]', '[+1]', '[.5]', 'tru1e5', '"1.0', '[1.0', ''])(
    'refuses %s, as JSON.parse does',
    (text) => {
      expect(() => parseExactly(text)).toThrow(SyntaxError);
    },
  );

  it('refuses more than ten thousand numbers that are not exact', () => {
    const many = (count: number) => `[${Array<string>(count).fill('1.0').join()}]`;
    expect(parseExactly(many(10_000))).toHaveLength(10_000);
    expect(() => parseExactly(many(10_001))).toThrow(RangeError);
  });
});
