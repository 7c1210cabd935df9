import { mustAllBeClean } from './seed-ranges.ts';

mustAllBeClean([
  [{ shards: 2, messages: true }, 12],
  [{ shards: 2, faults: 'of handovers' }, 12],
  [{ shards: 3, faults: 'of leaders' }, 12],
  [{ shards: 3 }, 12],
  [{ shards: 2, busy: true }, 2],
]);
