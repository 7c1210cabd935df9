import { theConversation } from '../../../src/plugin/names.ts';
import { conversationIdOf } from '../../../src/resources/ids.ts';
import { aConversation, noon } from '../../support/builders.ts';

const one = aConversation({ name: '019aa6a65c4d7b1e8f1f2f7f4f3a2b10' });
const other = aConversation({
  name: '019aa6a65c4d7b1e8f1f2f7f4f3a2b11',
  spec: { title: 'Other\u001b' },
});
const made = aConversation({ name: 'made-by-kubectl' });
const gone = aConversation({ name: 'gone' });
const all = [
  one,
  other,
  made,
  { ...gone, metadata: { ...gone.metadata, deletionTimestamp: noon } },
];
const find = (text: string) => theConversation(all, text, 'agents').metadata.name;

it.each([
  ['its name', one.metadata.name, one],
  ['its id with dashes', '019aa6a6-5c4d-7b1e-8f1f-2f7f4f3a2b11', other],
  ['its beginning', 'made', made],
  ['the output of -o name', 'conversation.conversation-operator.dev/made-by-kubectl', made],
  ['resource and name', 'conversation/made', made],
  ['the id that REST gives it', conversationIdOf(made), made],
  ['the beginning of that id', conversationIdOf(made).slice(0, 8), made],
])('a conversation is found by %s', (_name, text, expected) => {
  expect(find(text)).toBe(expected.metadata.name);
});

it('a name that begins another name is that of its own conversation', () => {
  const longer = aConversation({ name: 'made-by-kubectl-2' });
  expect(theConversation([longer, ...all], 'made-by-kubectl', 'agents')).toBe(made);
});

it('several candidates are named, and none is chosen', () => {
  expect(() => find('019aa6')).toThrow(
    `2 conversations begin with '019aa6', so nothing was done:\n  ${one.metadata.name}  Say hello.\n  ${other.metadata.name}  Other`,
  );
});

it.each(['nothing', '', 'gone'])('there is no conversation %j', (text) => {
  expect(() => find(text)).toThrow(
    `There is no conversation whose name or id begins with '${text}' in the namespace agents`,
  );
});
