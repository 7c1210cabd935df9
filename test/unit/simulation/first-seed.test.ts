import { firstSeed } from '../../simulation/first-seed.ts';

it('the first seed is the one that is given', () => {
  expect(firstSeed('42')).toBe(42);
});

it('without one given, each run begins at another seed', () => {
  expect(firstSeed('')).not.toBe(firstSeed(''));
});

it.each(['-1', '1.5', 'one'])('a first seed of %s is refused', (text) => {
  expect(() => firstSeed(text)).toThrow('FIRST_SEED is a whole number from 0 on');
});
