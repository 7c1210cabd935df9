import { DerivedState } from '../src/derived-state.ts';

/** Title of a conversation whose first message has this text. */
function titleOf(text: string): string | undefined {
  const state = new DerivedState();
  state.apply({
    id: 'm',
    timestamp: '2026-01-01T00:00:00.000000',
    kind: 'MessageEvent',
    source: 'user',
    llm_message: { role: 'user', content: [{ type: 'text', text }] },
    activated_skills: [],
  });
  return state.title;
}

it.each([
  ['a short text', 'Mend the login', 'Mend the login'],
  ['its first line that is no markup', '```\n# Mend the login\nnow', 'Mend the login'],
  [
    'the beginning of a long text, between two words',
    'Mend the login of the page for people who have forgotten',
    'Mend the login of the page for people who have…',
  ],
  ['the beginning of a long word', `begin${'x'.repeat(60)}end`, `begin${'x'.repeat(20)}…`],
  ['nothing', ' \n', undefined],
])('a conversation is titled by its first message: %s', (_name, text, title) => {
  expect(titleOf(text)).toBe(title);
});
