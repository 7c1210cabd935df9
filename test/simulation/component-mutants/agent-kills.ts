import { rareSeeds, type Kill } from '../mutants/mutant.ts';
import type { AgentMutantName } from './agent-mutants.ts';

/** The check that kills each mutant and the faults. */
export const agentKills: Readonly<Record<AgentMutantName, Kill>> = {
  'an agent that sends notifications is never polled': {
    rule: /no conversation is reported as running without a running agent|no unresponsive agent is reported as running/,
    focus: 'webhooks',
    world: 'shared',
  },
  'a notification counts as the end of a run': { rule: 'everything settles' },
  'an unresponsive agent is never recorded': {
    rule: 'no unresponsive agent is reported as running',
    focus: 'silence',
    world: 'shared',
  },
  'an agent that was unresponsive is never probed again': {
    rule: /an agent that answers again is reported as responsive|everything settles/,
  },
  'a stuck run is never interrupted': { rule: 'everything settles', seeds: rareSeeds },
  'a run is interrupted at its first poll': {
    rule: 'only a run that reports nothing is interrupted as stuck',
  },
  'the interrupt of a stuck run is not stored': { rule: 'everything settles', seeds: rareSeeds },
};
