import { mustAllBeClean } from './seed-ranges.ts';

mustAllBeClean([
  [{ pools: true }, 60],
  [{ pools: true, messages: true }, 30],
  [{ pools: true, retention: true }, 30],
  [{ pools: true, faults: 'of leaders' }, 20],
  [{ pools: true, faults: 'of handovers' }, 20],
  [{ pools: true, faults: 'none', messages: true }, 20],
]);
