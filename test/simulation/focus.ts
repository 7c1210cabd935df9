import type { Action } from './exercise.ts';
import type { FaultChances } from './fault-schedule.ts';
import type { Blow } from './faults.ts';
import type { Traits } from './world.ts';

/** The settings of a world that has more of something than others. */
export interface Emphasis {
  readonly traits?: Partial<Traits>;
  /** Faults of messages that every seed has. */
  readonly chances?: Partial<FaultChances>;
  /** The only blows, however seldom others come. */
  readonly blows?: readonly Blow[];
  /** The only actions of a long exercise. */
  readonly actions?: readonly Action[];
  /** Whether pods need long to be scheduled. */
  readonly slowStarts?: boolean;
  /** Chance that a run ends its container, in place of 0.15. */
  readonly deadly?: number;
  /** Whether there are many conversations, whose users scarcely wait. */
  readonly crowd?: boolean;
  /** Whether each owner may have one or two active sandboxes, in every seed. */
  readonly quota?: boolean;
}

export const focusNames = [
  'use',
  'webhooks',
  'pauses',
  'quota',
  'losses',
  'clocks',
  'outages',
  'silence',
  'failures',
  'lag',
] as const;

export type Focus = (typeof focusNames)[number];

/**
 * Narrow worlds: a mistake that few seeds of the wide world show is shown by most seeds of one of
 * these. No promise of the product is weaker here.
 */
const focuses: Readonly<Record<Focus, Emphasis>> = {
  /** Messages and pauses while nothing goes wrong, in agents that are busy. */
  use: {
    actions: ['pause', 'resume', 'message', 'message', 'message', 'start', 'crash'],
  },
  /** The same where agents send webhooks. */
  webhooks: { actions: ['pause', 'resume', 'start', 'start'], traits: { notifications: true } },
  /** Pauses of agents that do not stop. */
  pauses: { actions: ['pause deaf', 'pause deaf', 'pause deaf', 'start', 'message', 'resume'] },
  quota: { crowd: true, quota: true, traits: { owners: ['alice', 'bob'] } },
  losses: { deadly: 0.9, blows: ['crash agent'] },
  clocks: {
    slowStarts: true,
    blows: ['jump wall clock'],
    traits: { longJumps: true, startDeadline: '2m', outages: false },
  },
  /** Sandboxes that have run lose their pods while no node has room, for longer than a start may take. */
  outages: {
    blows: ['evict', 'crash agent', 'lose node'],
    traits: { outages: true, startDeadline: '30s' },
  },
  silence: { traits: { hangs: true, notifications: true }, blows: [] },
  /** The API server fails at one write for longer than any controller waits between two tries. */
  failures: { actions: ['refuse long', 'pause', 'resume'] },
  /** Caches that are behind. */
  lag: { chances: { watchLag: 0.9, late: 0.1 }, crowd: true },
};

export const emphasisOf = (focus: Focus | undefined): Emphasis =>
  focus === undefined ? {} : focuses[focus];
