import { validUtf8 } from '../src/utf8.ts';

describe('validUtf8', () => {
  it('returns UTF-8 as it is', () => {
    const bytes = Buffer.from('ü 😀');
    expect(validUtf8(bytes)).toBe(bytes);
  });

  it.each([
    ['a byte that begins nothing', [0x61, 0xff, 0x62], 'a\ufffdb'],
    ['half a character', [0x61, 0xc3], 'a\ufffd'],
  ])('replaces %s', (_name, bytes, text) => {
    expect(validUtf8(Buffer.from(bytes))).toEqual(Buffer.from(text));
  });
});
