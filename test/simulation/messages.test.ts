import { focusNames } from './focus.ts';
import { mustAllBeClean, ranges } from './seed-ranges.ts';

mustAllBeClean([
  ...ranges({ messages: true }, 50, 25),
  [{ messages: true, world: 'plain' }, 5],
  [{ messages: true, world: 'single-owner' }, 5],
  [{ messages: true, faults: 'of leaders' }, 10],
  [{ messages: true, faults: 'none' }, 10],
  ...focusNames.flatMap((focus) => ranges({ focus, faults: 'none', messages: true }, 4, 4)),
]);
