import { mustBeClean, type ExpectedKill } from './expectations.ts';

const timeoutMs = 300_000;

describe('the simulation with pools of spare sandboxes', () => {
  it.each<[NonNullable<ExpectedKill['faults']>, boolean, boolean, number, number]>([
    ['all', false, false, 1, 60],
    ['all', true, false, 1, 30],
    ['all', false, true, 1, 30],
    ['of leaders', false, false, 1, 20],
    ['of handovers', false, false, 1, 20],
    ['none', true, false, 1, 20],
  ])(
    'is clean under faults: %s, with messages: %s, with retention: %s, with seeds %i to %i',
    async (faults, messages, retention, first, last) => {
      for (let seed = first; seed <= last; seed++)
        await mustBeClean({ seed, faults, messages, retention, pools: true });
    },
    timeoutMs,
  );
});
