import { commitIdentityOf } from '../../../../../src/controllers/conversation/git/git-access.ts';

const alice = { name: 'Alice', email: 'alice@example.com' };
const openHands = 'openhands <openhands@all-hands.dev>';

it.each<[string, Parameters<typeof commitIdentityOf>, ReturnType<typeof commitIdentityOf>]>([
  ['no choice of the owner', [{}, { git: {}, kind: 'openhands' }], undefined],
  [
    'an owner',
    [{ git: alice }, { git: undefined, kind: 'openhands' }],
    { ...alice, coAuthor: openHands },
  ],
  ['an owner with another agent', [{ git: alice }, { git: {}, kind: 'acp' }], alice],
  [
    'a co-author of the template',
    [{ git: alice }, { git: { coAuthor: 'Codex <codex@example.com>' }, kind: 'acp' }],
    { ...alice, coAuthor: 'Codex <codex@example.com>' },
  ],
  [
    'an owner who wants no co-author',
    [{ git: { ...alice, coAuthor: false } }, { git: {}, kind: 'openhands' }],
    alice,
  ],
])('the author for %s', (_what, given, expected) => {
  expect(commitIdentityOf(...given)).toEqual(expected);
});
