import { mustAllBeClean } from './seed-ranges.ts';

mustAllBeClean([
  [{ retention: true }, 10],
  [{ retention: true, messages: true }, 10],
  [{ retention: true, faults: 'of leaders' }, 4],
  [{ retention: true, faults: 'none', messages: true }, 6],
]);
