import type { TestedMutant } from './tested-mutant.ts';

const test = 'test/unit/controllers/sandbox/node-additions.test.ts';
const decide = { file: 'src/controllers/sandbox/decide.ts', test };
const reads = { file: 'src/controllers/sandbox/node-additions.ts', test };

/**
 * Mistakes about a start that waits for a new node. A read of Events fails for longer than the
 * client tries in tests alone. Each name is the mistake as a sentence.
 */
export const nodeMutants: Readonly<Record<string, TestedMutant>> = {
  'Events that can not be read end a start at once': {
    ...decide,
    from: "nodeAddition === 'unknown' && startingForMs < deadlineMs + unknownGraceMs;",
    to: 'startingForMs < 0;',
    name: 'does not end while the Events can not be read for a moment',
  },
  'Events that can not be read hold a start for ever': {
    ...decide,
    from: "nodeAddition === 'unknown' && startingForMs < deadlineMs + unknownGraceMs;",
    to: "nodeAddition === 'unknown';",
    name: 'ends a minute after its deadline when the Events can not be read',
  },
  'an operator without the right to read Events waits as if they were unknown': {
    ...reads,
    from: 'if (isForbidden(error)) return this.#remember(uid, undefined);',
    to: "if (isForbidden(error)) return 'unknown';",
    name: 'ends at its deadline without the right to read Events',
  },
  'an announcement of a node counts for ever': {
    ...reads,
    from: 'ageMs < maxAnnouncementAgeMs',
    to: 'ageMs >= 0',
    name: 'has its deadline again after a node that did not come in 15 minutes',
  },
  'Events about a pod are read at each reconcile': {
    ...reads,
    from: 'clock.monotonic() - known.readAt < nextCheckMs[addition]',
    to: 'clock.monotonic() < known.readAt',
    name: 'one read a minute',
  },
  'a denial of a node is not read again at the deadline': {
    ...reads,
    from: "isRecent && (addition === 'announced' || !isFinal)",
    to: 'isRecent',
    name: 'reads a denial again at its deadline',
  },
  'a node is asked for at the deadline alone': {
    ...decide,
    from: 'Math.min(firstCheckMs, startDeadlineMsOf(observed))',
    to: 'startDeadlineMsOf(observed)',
    name: 'has its whole deadline once its node has joined',
  },
  'a node counts as announced after the autoscaler has given it up': {
    file: 'src/controllers/sandbox/node-additions.ts',
    test,
    from: ' && announcedAt >= latest(isDenial)',
    to: ' && announcedAt >= latest(() => false)',
    name: 'a scale-up that has failed since',
  },
};
