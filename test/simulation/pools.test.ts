import { mustAllBeClean } from './seed-ranges.ts';

mustAllBeClean([
  [{ pools: true }, 10],
  [{ pools: true, messages: true }, 6],
  [{ pools: true, retention: true }, 6],
  [{ pools: true, faults: 'of leaders' }, 4],
  [{ pools: true, faults: 'of handovers' }, 4],
  [{ pools: true, faults: 'none', messages: true }, 4],
]);
