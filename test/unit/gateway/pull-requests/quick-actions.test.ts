import { withoutQuickActions } from '../../../../src/gateway/pull-requests/quick-actions.ts';

it.each<[string, string, string]>([
  ['alone', '/close', String.raw`\/close`],
  ['in capitals', '/Merge', String.raw`\/Merge`],
  ['with an argument', '/label ~bug', String.raw`\/label ~bug`],
  ['with a dash and digits', '/ok-to-test2', String.raw`\/ok-to-test2`],
  ['behind spaces', '  \t/approve', `  \t\\/approve`],
  ['behind a no-break space', '\u{a0}/approve', '\u{a0}\\/approve'],
  ['on a later line', 'Done.\n/merge\n/close', 'Done.\n\\/merge\n\\/close'],
  ['behind an empty line', '\n\n/merge', '\n\n\\/merge'],
  ['behind another end of a line', 'Done.\r/merge\r\n/close', 'Done.\n\\/merge\n\\/close'],
  ['that lacks only a carriage return', '/\rclose', '/\nclose'],
  ['that a carriage return divides', '/clo\rse', '\\/clo\nse'],
  ['in a block of code, where bots read too', '```\n/merge\n```', '```\n\\/merge\n```'],
  ['with a mark behind it', '/merge!', String.raw`\/merge!`],
])('a quick action %s is escaped', (_where, text, expected) => {
  expect(withoutQuickActions(text)).toBe(expected);
});

it.each([
  '',
  'See docs/close and src/merge.',
  'Either /close or not',
  '/usr/bin/env',
  '/etc/passwd is read',
  '//close',
  '/ close',
  '/1',
  String.raw`\/close`,
  '> quoted',
])('%j is no quick action', (text) => {
  expect(withoutQuickActions(text)).toBe(text);
});

it('takes no more time than the text is long', () => {
  const [begin, length] = [performance.now(), 1_000_000];
  for (const character of [' ', '\n', '\u{2028}', '/', '/a', '/a '])
    withoutQuickActions(character.repeat(length));
  // Quadratic time would be hours.
  expect(performance.now() - begin).toBeLessThan(20_000);
});
