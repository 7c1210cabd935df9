import { focusNames } from './focus.ts';
import { mustAllBeClean, ranges } from './seed-ranges.ts';

mustAllBeClean([
  ...ranges({ messages: true }, 34, 17),
  [{ messages: true, world: 'plain' }, 4],
  [{ messages: true, world: 'single-owner' }, 4],
  [{ messages: true, faults: 'of leaders' }, 7],
  [{ messages: true, faults: 'none' }, 7],
  ...focusNames.flatMap((focus) => ranges({ focus, faults: 'none', messages: true }, 3, 3)),
]);
