import { mustAllBeClean } from './seed-ranges.ts';

mustAllBeClean([
  [{ shards: 2, messages: true }, 4],
  [{ shards: 2, faults: 'of handovers' }, 4],
  [{ shards: 3, faults: 'of leaders' }, 4],
  [{ shards: 3 }, 4],
  [{ shards: 2, busy: true }, 1],
]);
