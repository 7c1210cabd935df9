import { agentMutants, type AgentMutantName } from './agent-mutants.ts';
import { mustBeKilled, type ExpectedKill } from '../expectations.ts';

/** What catches it, under which faults, and from which seed on it is looked for. */
const expectedKills: Readonly<Record<AgentMutantName, ExpectedKill>> = {
  'notifications are not heard': {
    rule: 'a notification of an agent is acted on soon',
    faults: 'none',
  },
  'an agent that sends notifications is never polled': {
    rule: /nothing is said to run that does not|a silent agent is not said to run/,
  },
  'a notification is taken for the end of a run': { rule: 'everything settles' },
  'an unresponsive agent is never recorded': { rule: 'a silent agent is not said to run' },
  'whoever was silent is not asked any more': {
    rule: /who answers again is not silent|everything settles/,
  },
  'a run of which nothing is heard goes on': { rule: 'everything settles' },
  'a run is stopped as soon as it is seen': {
    rule: 'only a run of which nothing is heard is stopped',
  },
  'that a run was stopped is not written down': { rule: 'everything settles' },
};

describe('of what agents tell and do not tell, the simulation notices when', () => {
  it.each(Object.entries(agentMutants))(
    '%s',
    (name, mutant) => mustBeKilled(mutant, expectedKills[name as AgentMutantName]),
    300_000,
  );
});
