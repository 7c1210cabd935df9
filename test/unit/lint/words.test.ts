import { check, wordsOutOfUse } from '../../lint/words.ts';

const words = wordsOutOfUse();
const messagesIn = (text: string, isCode = true): readonly string[] =>
  check(text, isCode ? words.inCode : words.inDocuments, isCode).map(({ message }) => message);

it('reads the words out of use from the glossary', () => {
  expect(words.inCode.get('hinted')).toBe('notification');
  expect(words.inCode.get('so much')).toContain('maximum');
  expect(words.inDocuments.get('hinted')).toBe('notification');
  expect(words.inDocuments.get('spares')).toBe('warm sandbox');
});

it.each([
  ['a comment', '/** The agent hints at a change. */', 'hints'],
  ['a name', 'const hintAll = 1;', 'hint'],
  ['a message', "throw new Error('bad weather');", 'weather'],
  ['a phrase', '// The run ends so often.', 'so often'],
])('refuses a word out of use in %s', (_where, text, word) => {
  expect(messagesIn(text)).toEqual([expect.stringContaining(`"${word}" is out of use`)]);
});

it('refuses a word of the API in documents alone, outside code font', () => {
  expect(messagesIn('// The spare is claimed.')).toEqual([]);
  expect(messagesIn('The reason `Spare`.', false)).toEqual([]);
  expect(messagesIn('The spare is claimed.', false)).toEqual([
    '"spare" is out of use: warm sandbox',
  ]);
});

it.each([
  ['a limit that is called most', 'const mostRetries = 3;', 'begins with max or min'],
  ['a sentence without a subject', '/** What the agent says. */', 'begins with "What"'],
  [
    'a second sentence without a subject',
    '  // The agent answers. It is ready.',
    'begins with "It"',
  ],
  ['a comment that is too wide', `  // ${'wide '.repeat(20)}`, 'at most 100 characters wide'],
])('refuses %s', (_what, text, message) => {
  expect(messagesIn(text)).toEqual([expect.stringContaining(message)]);
});

it.each([
  ['standard words', '/** Maximum retries of one request. */', true],
  ['words that contain one', '// The lookup of a shortcut by email.', true],
  ['code in a document', 'Run `hint` with `kubectl`.', false],
  ['a fenced block', '```sh\nhint here\n```', false],
])('accepts %s', (_what, text, isCode) => {
  expect(messagesIn(text, isCode)).toEqual([]);
});
