import { focusNames } from './focus.ts';
import { mustAllBeClean, ranges } from './seed-ranges.ts';

mustAllBeClean([
  ...ranges({ messages: true }, 100, 50),
  [{ messages: true, world: 'plain' }, 10],
  [{ messages: true, world: 'single-owner' }, 10],
  [{ messages: true, faults: 'of leaders' }, 20],
  [{ messages: true, faults: 'none' }, 20],
  ...focusNames.flatMap((focus) => ranges({ focus, faults: 'none', messages: true }, 8, 8)),
]);
