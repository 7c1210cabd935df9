import { mustAllBeClean } from './seed-ranges.ts';

mustAllBeClean([
  [{ pools: true }, 15],
  [{ pools: true, messages: true }, 8],
  [{ pools: true, retention: true }, 8],
  [{ pools: true, faults: 'of leaders' }, 5],
  [{ pools: true, faults: 'of handovers' }, 5],
  [{ pools: true, faults: 'none', messages: true }, 5],
]);
