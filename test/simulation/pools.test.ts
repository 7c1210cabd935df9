import { mustAllBeClean } from './seed-ranges.ts';

mustAllBeClean([
  [{ pools: true }, 30],
  [{ pools: true, messages: true }, 15],
  [{ pools: true, retention: true }, 15],
  [{ pools: true, faults: 'of leaders' }, 10],
  [{ pools: true, faults: 'of handovers' }, 10],
  [{ pools: true, faults: 'none', messages: true }, 10],
]);
