import { Hunt, type HuntOptions } from '../../../simulation/mutants/hunt.ts';

const rule = 'everything settles';
const failure = (seed: number, failed: string, steps = 100) => ({
  seed,
  rule: failed,
  message: failed,
  steps,
});

const aHunt = (options: Partial<HuntOptions> = {}) =>
  new Hunt({
    name: 'a mistake',
    mutation: { file: 'a.ts', from: 'a', to: 'b' },
    kill: { rule },
    firstSeed: 7,
    seeds: 3,
    kills: 1,
    ...options,
  });

describe('the hunt for a mutant', () => {
  it('hands out its seeds from the first one on', () => {
    const hunt = aHunt();
    expect([hunt.take(), hunt.take(), hunt.take(), hunt.take()]).toEqual([7, 8, 9, undefined]);
  });

  it.each([
    ['begins with a known seed', 9, [9, 7, 8, undefined]],
    ['leaves out a known seed that is none of its own', 42, [7, 8, 9, undefined]],
  ])('%s', (_case, knownSeed, expected) => {
    const hunt = aHunt({ knownSeed });
    expect(expected.map(() => hunt.take())).toEqual(expected);
  });

  it('is over once its known seed shows the mistake', () => {
    const hunt = aHunt({ knownSeed: 9 });
    hunt.take();
    hunt.record(failure(9, rule));
    expect(hunt).toMatchObject({ isKilled: true, isOpen: false, killer: 9 });
  });

  it('is over once a seed fails by the named check', () => {
    const hunt = aHunt();
    hunt.take();
    hunt.record(failure(7, rule));
    expect(hunt).toMatchObject({ isKilled: true, isOpen: false });
    expect(hunt.take()).toBeUndefined();
  });

  it('continues after a seed that fails by another check, and reports that check', () => {
    const hunt = aHunt();
    hunt.take();
    hunt.record(failure(7, 'no hot loop'));
    expect(hunt).toMatchObject({ isKilled: false, isOpen: true });
    hunt.take();
    hunt.record(failure(8, rule));
    expect(hunt.report).toBe(
      'a mistake: killed by seed 8, ‘everything settles’ (1 of 2 seeds, 1 fail ‘no hot loop’)',
    );
  });

  it('ends without a kill when no seed fails by the named check', () => {
    const hunt = aHunt();
    for (let seed = hunt.take(); seed !== undefined; seed = hunt.take())
      hunt.record(seed === 8 ? failure(seed, 'no hot loop') : undefined);
    expect(hunt.isKilled).toBe(false);
    expect(hunt.report).toBe('a mistake: SURVIVES (0 of 3 seeds, 1 fail ‘no hot loop’)');
  });

  it('accepts each of several checks', () => {
    const hunt = aHunt({ kill: { rule: /everything settles|no hot loop/ } });
    hunt.take();
    hunt.record(failure(7, 'no hot loop'));
    expect(hunt.isKilled).toBe(true);
  });

  it('continues until as many seeds as wanted show the mistake', () => {
    const hunt = aHunt({ kills: 2 });
    hunt.take();
    hunt.record(failure(7, rule));
    expect(hunt).toMatchObject({ isKilled: true, isOpen: true });
  });

  it('prefers the seed that shows the mistake in the fewest steps', () => {
    const hunt = aHunt({ kills: 3 });
    for (const [seed, steps] of [
      [7, 300],
      [8, 100],
      [9, 200],
    ] as const) {
      hunt.take();
      hunt.record(failure(seed, rule, steps));
    }
    expect(hunt.killer).toBe(8);
  });
});
