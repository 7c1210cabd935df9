import { randomInt } from 'node:crypto';

const maxSeed = 1e9;

/**
 * The first seed of a run over many seeds: `FIRST_SEED`, which repeats a run, or else a random one,
 * so that each run shows something new and no test depends on what one seed means.
 */
export function firstSeed(text = process.env['FIRST_SEED'] ?? ''): number {
  if (text === '') return randomInt(1, maxSeed);
  const seed = Number(text);
  if (!Number.isSafeInteger(seed) || seed < 0)
    throw new Error(`FIRST_SEED is a whole number from 0 on; not ${text}`);
  return seed;
}
