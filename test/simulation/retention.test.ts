import { mustAllBeClean } from './seed-ranges.ts';

mustAllBeClean([
  [{ retention: true }, 30],
  [{ retention: true, messages: true }, 30],
  [{ retention: true, faults: 'of leaders' }, 10],
  [{ retention: true, faults: 'none', messages: true }, 15],
]);
