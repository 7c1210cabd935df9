import { check, wordsOutOfUse } from '../../lint/words.ts';

const words = wordsOutOfUse();
const messagesIn = (text: string, isCode = true): readonly string[] =>
  check(text, words, isCode).map(({ message }) => message);

it('reads the words out of use from the glossary', () => {
  expect(words.get('told')).toContain('notify');
  expect(words.get('goes on')).toContain('continue');
});

it.each([
  ['a comment', '/** The operator tells the agent. */', 'tells'],
  ['a name', 'const tellAll = 1;', 'tell'],
  ['a message', "throw new Error('nobody answers');", 'nobody'],
  ['a phrase', '// The run goes on.', 'goes on'],
])('refuses a word out of use in %s', (_where, text, word) => {
  expect(messagesIn(text)).toEqual([expect.stringContaining(`"${word}" is out of use`)]);
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
  ['code in a document', 'Run `tell` with `kubectl`.', false],
  ['a fenced block', '```sh\nlook here\n```', false],
])('accepts %s', (_what, text, isCode) => {
  expect(messagesIn(text, isCode)).toEqual([]);
});
