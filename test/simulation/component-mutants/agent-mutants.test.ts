import { agentMutants, type AgentMutantName } from './agent-mutants.ts';
import { mustBeKilled, type ExpectedKill } from '../expectations.ts';

/** The check that kills each mutant, the faults, and the first seed of the search. */
const expectedKills: Readonly<Record<AgentMutantName, ExpectedKill>> = {
  'notifications are ignored': {
    rule: 'a notification of an agent takes effect soon',
    firstSeed: 86,
    faults: 'none',
  },
  'an agent that sends notifications is never polled': {
    firstSeed: 98,
    rule: /no conversation is reported as running without a running agent|no unresponsive agent is reported as running/,
  },
  'a notification counts as the end of a run': { rule: 'everything settles' },
  'an unresponsive agent is never recorded': {
    rule: 'no unresponsive agent is reported as running',
  },
  'an agent that was unresponsive is never probed again': {
    rule: /an agent that answers again is reported as responsive|everything settles/,
  },
  'a stuck run is never interrupted': { rule: 'everything settles' },
  'a run is interrupted at its first poll': {
    rule: 'only a run that reports nothing is interrupted as stuck',
  },
  'the interrupt of a stuck run is not stored': { rule: 'everything settles' },
};

describe('of the observation of agents, the simulation kills the mutant in which', () => {
  it.each(Object.entries(agentMutants))(
    '%s',
    (name, mutant) => mustBeKilled(mutant, expectedKills[name as AgentMutantName]),
    300_000,
  );
});
