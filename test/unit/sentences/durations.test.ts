import { ago, duration } from '../../../src/sentences/durations.ts';

it.each([
  [-5_000, '0 s'],
  [41_900, '41 s'],
  [60_000, '1 min'],
  [3_599_000, '59 min'],
  [7_200_000, '2 h'],
  [200_000_000, '2 d'],
])('shows %i ms as %s', (ms, text) => {
  expect(duration(ms)).toBe(text);
});

it('does not count seconds of what is past', () => {
  const now = Date.parse('2026-01-01T12:00:00Z');
  expect(ago('2026-01-01T11:59:01Z', now)).toBe('just now');
  expect(ago('2026-01-01T11:58:00Z', now)).toBe('2 min ago');
});
