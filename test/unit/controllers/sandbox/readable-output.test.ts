import {
  lastWords,
  readable,
  tailOf,
} from '../../../../src/controllers/sandbox/readable-output.ts';

describe('what a step has printed', () => {
  it.each([
    [
      'progress',
      'Receiving: 1%\rReceiving: 50%\rReceiving: 100%, done.\nDone\n',
      'Receiving: 100%, done.\nDone',
    ],
    ['progress that has just begun a line anew', 'Receiving: 50%\r', 'Receiving: 50%'],
    ['lines of other systems', 'one\r\ntwo\r\n', 'one\ntwo'],
    ['colours and titles', '\u001b]0;title\u0007\u001b[1;31mred\u001b[0m', 'red'],
    ['control characters', 'a\u0000b\u0008c\u007fd\u009be', 'abcde'],
    ['text that runs backwards', 'a\u202eb\u2066c', 'abc'],
    ['half a surrogate pair', 'a\ud83d', 'a\ufffd'],
    [
      'a user of a URL',
      "fatal: 'https://bot:s3cret@host/a.git'",
      "fatal: 'https://***@host/a.git'",
    ],
    ['a header', 'Authorization: Bearer 1800000000.abcdef-ghij', 'Authorization: Bearer ***'],
    [
      'tokens',
      'ghp_0123456789abcdef glpat-0123456789 github_pat_11AAAAAAA0',
      'ghp_*** glpat-*** github_pat_***',
    ],
  ])('is shown with %s as people want it', (_sentence, printed, shown) => {
    expect(readable(printed)).toBe(shown);
  });

  it('is truncated at its beginning, at a line where there is one near', () => {
    expect(tailOf('one\ntwo\nthree', 100)).toBe('one\ntwo\nthree');
    expect(tailOf('one\ntwo\nthree', 11)).toBe('two\nthree');
    expect(tailOf('0123456789', 4)).toBe('6789');
    expect(tailOf('😀😀', 3)).toBe('\ufffd😀');
  });

  it('has no markup in a sentence', () => {
    expect(lastWords('1\n2\n3\n4\n5\n[bold]6[/bold]')).toBe('2\n3\n4\n5\n(bold)6(/bold)');
  });
});
