import { mustAllBeClean } from './seed-ranges.ts';

mustAllBeClean([
  [{ shards: 2, messages: true }, 6],
  [{ shards: 2, faults: 'of handovers' }, 6],
  [{ shards: 3, faults: 'of leaders' }, 6],
  [{ shards: 3 }, 6],
  [{ shards: 2, busy: true }, 1],
]);
