import { codeBlocksOf } from '../src/script-program.ts';

const fence = '```';
const codes = (text: string) =>
  codeBlocksOf(text).map((block) =>
    'tool' in block ? `tool ${block.tool}: ${block.code}` : `${block.shell}: ${block.code}`,
  );

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
    [
      'a call of a tool with its arguments',
      `${fence}tool create_PR\n{"a": 1}\n${fence}`,
      ['tool create_PR: {"a": 1}'],
    ],
    ['a call without arguments', `${fence}tool list more\n${fence}`, ['tool list: ']],
    ['not a call without a name', `${fence}tool\n{}\n${fence}`, []],
    ['not a call of a name without end', `${fence}tool ${'x'.repeat(201)}\n${fence}`, []],
    [
      'scripts and calls in their order',
      `${fence}tool a\n${fence}\n${fence}\nls\n${fence}\n${fence}Tool b\n${fence}`,
      ['tool a: ', 'sh: ls', 'tool b: '],
    ],
    ['a fence behind a million spaces not', `${fence}${' '.repeat(1_000_000)}\`\nls\n`, []],
    ['a closing fence that is longer', `${fence}sh\na\n${fence}${fence}`, ['sh: a']],
  ])('are %s', (_name, text, expected) => {
    expect(codes(text)).toEqual(expected);
  });
});
