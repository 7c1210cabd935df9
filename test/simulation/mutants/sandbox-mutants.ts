import { rareSeeds, type Mutant } from './mutant.ts';

const activeSince = 'activeSince is when a sandbox began to run after its last pause';

/** Mistakes in what becomes of a sandbox, and of the runs in it. */
export const sandboxMutants = {
  'activeSince ends with a lost pod': {
    file: 'src/controllers/sandbox/status.ts',
    from: '...(!ready && wanted && activeSince !== undefined ? { activeSinceTime: activeSince } : {}),',
    to: '',
    rule: activeSince,
  },
  'activeSince stays over a pause': {
    file: 'src/controllers/sandbox/status.ts',
    from: '...(!ready && wanted && activeSince',
    to: '...(!ready && activeSince',
    rule: activeSince,
  },
  'a pause waits for its agent without a bound': {
    file: 'src/controllers/sandbox/agent-stops.ts',
    from: 'this.#isInTime(scope, pauseTime) && running.length',
    to: 'running.length',
    focus: 'pauses',
    faults: 'none',
    messages: true,
    rule: /a pause ends in time|a sandbox whose agent answers is RUNNING in time/,
  },
  'a pause waits for its agent for five minutes': {
    file: 'src/controllers/sandbox/agent-stops.ts',
    from: 'options.pauseBoundMs ?? 15_000',
    to: 'options.pauseBoundMs ?? 300_000',
    focus: 'pauses',
    faults: 'none',
    messages: true,
    rule: /a pause ends in time|a sandbox whose agent answers is RUNNING in time/,
  },
  'a run is interrupted before it is stored': {
    file: 'src/controllers/sandbox/agent-stops.ts',
    from: 'if (interrupted.length > before.length) return',
    to: 'if (interrupted.length > maxInterrupted) return',
    rule: 'a run is stored before it is interrupted',
  },
  'only the first check of a pause stores the running conversations': {
    file: 'src/controllers/sandbox/agent-stops.ts',
    from: 'if (interrupted.length > before.length) return',
    to: 'if (before.length === 0 && interrupted.length > 0) return',
    rule: 'a run is stored before it is interrupted',
    focus: 'pauses',
    faults: 'none',
    messages: true,
  },
  'the next check of a pause forgets the interrupted conversations': {
    file: 'src/controllers/sandbox/status.ts',
    from: 'progress.interrupted ?? old.interruptedConversationIDs ?? []',
    to: 'progress.interrupted ?? []',
    focus: 'pauses',
    faults: 'none',
    messages: true,
    rule: /an interrupted run is remembered until its agent runs again|no controller runs hot/,
  },
  'the start deadline counts after the first run': {
    file: 'src/controllers/sandbox/decide.ts',
    from: 'if (overdue && failure === undefined && !lives) {',
    to: 'if (overdue && failure === undefined) {',
    rule: 'a sandbox that has run does not fail for a passing cause',
    focus: 'outages',
    seeds: rareSeeds,
  },
  'a jump of the wall clock ends a start': {
    file: 'src/controllers/elapsed-times.ts',
    from: 'return Math.floor(wallMs >= 0 ? Math.min(wallMs, observedMs) : observedMs);',
    to: 'return Math.floor(wallMs);',
    rule: 'a first start gets its whole start deadline',
    focus: 'clocks',
  },
  'a run that begins does not keep its node': {
    file: 'src/controllers/disruption-controller.ts',
    from: 'needsNode(conversation) !== needsNode(old) ||',
    to: '',
    faults: 'none',
    messages: true,
    rule: /everything settles|a pod (keeps its node while its agent works|lets its node go in time)/,
  },
  'a pod never lets its node go': {
    file: 'src/controllers/disruption/decide.ts',
    from: 'isNeeded ? keepsNode : letsNodeGo',
    to: 'keepsNode',
    faults: 'none',
    messages: true,
    rule: /everything settles|a pod lets its node go in time/,
  },
} as const satisfies Readonly<Record<string, Mutant>>;
