import { operatorMutants, type OperatorMutantName } from './operator-mutants.ts';
import { mustBeKilled } from '../expectations.ts';
import type { SimulationOptions } from '../stage.ts';

const toldOnce = 'each message is told once and in order';

type Where = readonly [
  rule: string | RegExp,
  faults?: SimulationOptions['faults'],
  firstSeed?: number,
  more?: Pick<SimulationOptions, 'messages' | 'world'>,
];

/**
 * What catches it, under which faults it is looked for, and from which seed on; all kinds unless
 * said.
 */
const expectedKills: Readonly<Record<OperatorMutantName, Where>> = {
  'a status is written whatever its version': [
    /starts only go on|no start goes backwards|READY and ERROR are final|keys stay/,
  ],
  'a requeue is forgotten': ['everything settles'],
  'it acts before its caches are filled': [/ERROR tells the truth|everything settles/],
  'the uid of an object that was created again is ignored': [
    'a start has a sandbox of its own',
    'none',
  ],
  'a create is repeated blindly under a new name': [/one pod per sandbox|one agent per volume/],
  'deletions have no preconditions, and are repeated': ['no wanted pod is deleted'],
  'the writes of a leader pass no gate': ['only the leader writes', 'of leaders'],
  'the first message is sent again': [
    'a first message is heard once',
    'all',
    100,
    { world: 'shared' },
  ],
  'a pod is deleted without a word to its agent': [
    'runs are interrupted before their pod goes',
    'none',
  ],
  'a sandbox is RUNNING before its agent has answered': [
    'RUNNING only after the agent has answered',
  ],
  'the session key stands in a status': ['nothing secret is stored'],
  "the agent's secret key stands in its pod": ['nothing secret is stored'],
  'a run goes on that its owner has paused': ['a pause by its owner stays', 'all', 50],
  'nobody counts how often a run was lost': ['no run is continued again and again'],
  'nobody counts how often an agent has refused to go on': ['everything settles'],
  'the first refusal to go on is the last': ['everything settles'],
  'nobody asks why a run has failed': ['what has failed by itself is left alone'],
  'an action that waits goes with its pod': ['no action waits in a pod that goes'],
  'an agent that has been seen to run is believed to': ['nothing is said to run that does not'],
  'a run that was lost before it was saved is taken for none': ['everything settles'],
  'a pause is undone': ['the system leaves the spec alone'],
  'a start forgets how far it was': ['starts only go on'],
  'every look at an agent is written down': [
    /no hot loop|everything settles|what has settled stays/,
  ],
  'a message is sent again without a look at what the agent has': [toldOnce],
  'a message is sent before that is written down': [toldOnce],
  'a message counts as told when nobody has said so': [toldOnce],
  'a message that keeps waiting is sent again': [toldOnce],
  'volumes have no owner': ['everything settles'],
  'a pod is made for every sandbox that the cache shows': [
    /everything settles|no wanted pod is deleted/,
  ],
};

describe('the simulation notices when', () => {
  it.each(Object.entries(operatorMutants))(
    '%s',
    async (name, mutant) => {
      const [rule, faults = 'all', firstSeed = 1, more] = expectedKills[name as OperatorMutantName];
      await mustBeKilled(mutant, {
        rule,
        faults,
        firstSeed,
        messages: rule === toldOnce,
        ...more,
      });
    },
    300_000,
  );
});
