import { mustAllBeClean } from './seed-ranges.ts';

mustAllBeClean([
  [{ retention: true }, 60],
  [{ retention: true, messages: true }, 60],
  [{ retention: true, faults: 'of leaders' }, 20],
  [{ retention: true, faults: 'none', messages: true }, 25],
]);
