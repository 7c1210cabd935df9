import type { Random } from './random.ts';

/**
 * Worlds that a seed can describe. A world that learns something new gives most of its seeds
 * another meaning, so seeds that were pinned for a mistake name the world that they were found in:
 * `plain` knows one owner, and agents that send no webhooks, never fall silent by themselves and
 * are never stuck; `single-owner` adds those; `shared` has everything.
 */
export const worlds = ['shared', 'single-owner', 'plain'] as const;

export type World = (typeof worlds)[number];

/** Properties of one seed's world that differ from seed to seed. */
export interface Traits {
  readonly owners: readonly string[];
  /** Agents send webhooks. */
  readonly notifications: boolean;
  /** Agents fall silent by themselves. */
  readonly hangs: boolean;
  /** At times nodes have no room or there is no image registry, for longer than a start takes. */
  readonly outages: boolean;
  /** Volumes stay attached to a node that is lost. */
  readonly detachesLate: boolean;
  readonly startDeadline: string;
  /** Wall clocks jump by minutes and hours, not only by a minute. */
  readonly longJumps: boolean;
  /** Chance of each write to be executed seconds after its connection broke. */
  readonly lateExecution: number;
  /** Maximum number of objects in a page of a list; absent: a list has one page. */
  readonly pageSize?: number;
  /** `agent.stuckAfter` of the template; absent: the template has none, and every run reports. */
  readonly stuckAfterMs?: number;
}

const allOwners = ['alice', 'bob', 'carol', 'dave'] as const;
const oneOwner: readonly string[] = ['alice'];

export function traitsOf(world: World, random: Random): Traits {
  const plain: Traits = {
    owners: oneOwner,
    notifications: false,
    hangs: false,
    outages: false,
    detachesLate: false,
    longJumps: false,
    lateExecution: 0,
    startDeadline: '2m',
  };
  if (world === 'plain') return plain;
  const traits = random.fork('traits');
  const single: Traits = {
    ...plain,
    notifications: traits.chance(0.5),
    hangs: traits.chance(0.3),
    ...(traits.chance(0.3) ? { stuckAfterMs: traits.whole(10, 40) * 1_000 } : {}),
  };
  if (world === 'single-owner') return single;
  // A stream for each trait: one that is added changes nothing of the others.
  const trait = (name: string) => random.fork(`trait-${name}`);
  const some = (name: string, chance: number) => trait(name).chance(chance);
  const owners = trait('owners');
  return {
    ...single,
    owners: owners.chance(0.8) ? allOwners.slice(0, owners.whole(2, allOwners.length)) : oneOwner,
    outages: some('outages', 0.15),
    detachesLate: some('detaches-late', 0.5),
    startDeadline: some('start-deadline', 0.3) ? '30s' : '2m',
    longJumps: some('long-jumps', 0.5),
    lateExecution: some('late-execution', 0.3) ? 0.05 : 0,
    ...(some('pages', 0.3) ? { pageSize: trait('page-size').whole(1, 3) } : {}),
  };
}
