import type { Kill } from '../mutants/mutant.ts';
import { admissionKills } from './admission-kills.ts';
import { admissionMutants } from './admission-mutants.ts';
import { agentKills } from './agent-kills.ts';
import { agentMutants } from './agent-mutants.ts';
import type { ComponentMutant } from './component-mutant.ts';
import { operatorKills } from './operator-kills.ts';
import { operatorMutants } from './operator-mutants.ts';
import { retentionKills, retentionMutants } from './retention-mutants.ts';

interface NamedComponentMutant extends Kill {
  readonly name: string;
  readonly component: ComponentMutant;
}

/** Agents of one owner, which is where most of these mistakes show soonest. */
const world = 'single-owner';

function named(
  mutants: Readonly<Record<string, ComponentMutant>>,
  kills: Readonly<Record<string, Kill>>,
  common: Partial<Kill> = {},
): NamedComponentMutant[] {
  return Object.entries(mutants).map(([name, component]) => {
    const kill = kills[name];
    if (kill === undefined) throw new Error(`no check is named that kills: ${name}`);
    return { world, ...common, ...kill, name, component };
  });
}

/** All component mutants, with the checks that kill them. */
export const componentMutants: readonly NamedComponentMutant[] = [
  ...named(admissionMutants, admissionKills, { faults: 'none', focus: 'quota', world: 'shared' }),
  ...named(agentMutants, agentKills),
  ...named(operatorMutants, operatorKills),
  ...named(retentionMutants, retentionKills, { messages: true, retention: true }),
];
