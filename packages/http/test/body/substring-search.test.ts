import { SubstringSearch } from '../../src/body/substring-search.ts';

describe('WordSearch', () => {
  const text = 'some bytes with a needle in them';
  it('finds a word however the bytes are split', () => {
    for (let first = 0; first <= text.length; first++)
      for (let second = first; second <= text.length; second++) {
        const search = new SubstringSearch('needle');
        const pieces = [text.slice(0, first), text.slice(first, second), text.slice(second)];
        expect(pieces.some((piece) => search.isIn(Buffer.from(piece)))).toBe(true);
      }
  });

  it('finds it byte by byte', () => {
    const search = new SubstringSearch('needle');
    expect(
      Array.from(Buffer.from(text), (byte) => Buffer.of(byte)).some((piece) => search.isIn(piece)),
    ).toBe(true);
  });

  it.each(['', 'needl', 'eedle', 'need' + 'lless', 'NEEDLE'])('does not find it in %j', (other) => {
    const search = new SubstringSearch('needle');
    expect([other, ' ', other].some((piece) => search.isIn(Buffer.from(piece)))).toBe(false);
  });
});
