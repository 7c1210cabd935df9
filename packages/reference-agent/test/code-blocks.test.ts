import { shellBlocksOf } from '../src/script-program.ts';

const fence = '```';
const codes = (text: string) => shellBlocksOf(text).map(({ shell, code }) => `${shell}: ${code}`);

describe('the shell code blocks of a message', () => {
  it.each([
    ['none in plain text', 'please `ls` for me', []],
    ['one that is tagged sh', `Do:\n${fence}sh\nls\n${fence}\n`, ['sh: ls']],
    ['one without a tag', `${fence}\nls\n${fence}`, ['sh: ls']],
    ['bash as bash', `${fence}bash\nls\n${fence}`, ['bash: ls']],
    [
      'a tag in capitals, with more words behind it',
      `${fence}Shell title=x\nls\n${fence}`,
      ['sh: ls'],
    ],
    [
      'several in their order',
      `${fence}sh\na\n${fence}\ntext\n${fence}shell\nb\n${fence}`,
      ['sh: a', 'sh: b'],
    ],
    [
      'not those of other languages',
      `${fence}python\nprint()\n${fence}\n${fence}sh\nls\n${fence}`,
      ['sh: ls'],
    ],
    ['not empty ones', `${fence}sh\n\n${fence}`, []],
    ['not one that may be truncated', `${fence}sh\nrm -rf /tmp/x`, []],
    ['tildes as well', '~~~sh\nls\n~~~', ['sh: ls']],
    [
      'a fence inside a longer fence as its text',
      `${fence}${fence}\necho\n${fence}\n${fence}${fence}`,
      [`sh: echo\n${fence}`],
    ],
    ['lines ended in the Windows way', `${fence}sh\r\na\r\nb\r\n${fence}\r\n`, ['sh: a\nb']],
    ['a closing fence that is longer', `${fence}sh\na\n${fence}${fence}`, ['sh: a']],
  ])('are %s', (_name, text, expected) => {
    expect(codes(text)).toEqual(expected);
  });
});
