import { operatorMutants, type OperatorMutantName } from './operator-mutants.ts';
import { mustBeKilled } from '../expectations.ts';
import type { SimulationOptions } from '../stage.ts';

const deliveredOnce = 'each message is delivered once and in order';

type Where = readonly [
  rule: string | RegExp,
  faults?: SimulationOptions['faults'],
  firstSeed?: number,
  more?: Pick<SimulationOptions, 'messages' | 'world'>,
];

/**
 * The check that kills each mutant, the faults (default: all), and the first seed of the search.
 */
const expectedKills: Readonly<Record<OperatorMutantName, Where>> = {
  'a status is written regardless of its version': [
    /transitions of a start are only appended|no start goes backwards|READY and ERROR are final|the master key of a sandbox does not change/,
    'all',
    17,
  ],
  'a delayed requeue is lost': ['everything settles'],
  'the operator acts before its caches are filled': [
    /the reason of a failed start is true|everything settles/,
  ],
  'the UID of a recreated object is ignored': ['a start has a sandbox of its own', 'none'],
  'a creation of unknown outcome is repeated under another name': [
    /a sandbox has one pod at most|a volume has one agent at most/,
  ],
  'deletions have no preconditions, and are repeated': [
    'no pod is deleted while its sandbox should run',
  ],
  'the writes of a leader are not fenced': ['only the leader writes', 'of leaders'],
  'the first message is sent again': ['an agent receives a first message once', 'all', 22],
  'a pod is deleted without an interrupt of its runs': [
    'a run is interrupted before its pod is deleted',
    'none',
  ],
  'a sandbox is RUNNING before its agent has answered': [
    'a sandbox is RUNNING only after its agent has answered',
  ],
  'a status contains the session key': ['no secret is stored'],
  'a pod contains the secret key of its agent': ['no secret is stored'],
  'a run resumes that its owner has paused': [
    'a run that its owner has paused stays paused',
    'all',
    99,
  ],
  'lost containers are not counted': ['the number of resumes of a run is limited'],
  'rejected resumes are not counted': ['everything settles'],
  'the first rejected resume ends a run': ['everything settles'],
  'the error of a failed run is not read': ['a run that has failed is not resumed', 'all', 358],
  'an action that waits for a confirmation is lost with its pod': [
    'no pod is deleted while an action waits for a confirmation',
    'all',
    230,
  ],
  'a run that was observed once never ends': [
    'no conversation is reported as running without a running agent',
    'all',
    6,
  ],
  'a run that was lost before it was saved counts as finished': ['everything settles'],
  'a pause is reverted': ['the operator does not change the spec of a sandbox'],
  'a start loses its first transition': ['transitions of a start are only appended'],
  'every poll of an agent changes the status': [
    /no hot loop|everything settles|a settled system stays settled/,
  ],
  'a message is sent again without a check whether the agent has it': [deliveredOnce],
  'a message is sent before its delivery is stored': [deliveredOnce],
  'a message counts as delivered without an answer of the agent': [deliveredOnce],
  'a message that waits in an agent is sent again': [deliveredOnce],
  'volume claims have no owner': ['everything settles'],
  'a pod is created for every sandbox in the cache': [
    /everything settles|no pod is deleted while its sandbox should run/,
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
        messages: rule === deliveredOnce,
        ...more,
      });
    },
    300_000,
  );
});
