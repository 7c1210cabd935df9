import { mustAllBeClean } from './seed-ranges.ts';

mustAllBeClean([
  [{ retention: true }, 15],
  [{ retention: true, messages: true }, 15],
  [{ retention: true, faults: 'of leaders' }, 5],
  [{ retention: true, faults: 'none', messages: true }, 8],
]);
