import type { Action } from './exercise.ts';
import type { FaultChances } from './fault-schedule.ts';
import type { EndChances } from './agent-process.ts';
import type { TimeLimits } from '../../src/quota/time-limits.ts';
import type { Blow } from './faults.ts';
import type { QuotaStyle } from './quotas.ts';
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
  /** Whether pods wait at scheduling gates and for a resource quota, in place of other outages. */
  readonly gates?: boolean;
  readonly ends?: Partial<EndChances>;
  /** Whether some calls that answer a question arrive late, or have no reply. */
  readonly answerDoubts?: boolean;
  /** Whether agents keep their question when they end, as agents of the kind acp do. */
  readonly keepsQuestions?: boolean;
  /** Whether people answer questions an hour after everything else has come to rest. */
  readonly answersLate?: boolean;
  /** Whether there are many conversations, whose users scarcely wait. */
  readonly crowd?: boolean;
  readonly quota?: QuotaStyle;
  /** Limits of the template. */
  readonly limits?: TimeLimits;
}

export const focusNames = [
  'use',
  'webhooks',
  'pauses',
  'quota',
  'resumes',
  'losses',
  'broken',
  'ends',
  'questions',
  'kept questions',
  'late answers',
  'restarts',
  'answers',
  'clocks',
  'outages',
  'gates',
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
  use: { actions: ['pause', 'resume', 'message', 'message', 'message', 'start', 'crash'] },
  /** The same where agents send webhooks. */
  webhooks: { actions: ['pause', 'resume', 'start', 'start'], traits: { notifications: true } },
  /** Pauses of agents that do not stop. */
  pauses: { actions: ['pause deaf', 'pause deaf', 'pause deaf', 'start', 'message', 'resume'] },
  quota: { crowd: true, quota: 'tight', traits: { owners: ['alice', 'bob'] } },
  /** Sandboxes that a quota pauses, and that resume automatically when others are idle. */
  resumes: {
    quota: 'automatic',
    limits: { idleTimeout: '2s' },
    traits: { owners: ['alice'] },
    actions: ['start', 'message', 'resume', 'crash'],
  },
  losses: { ends: { deadly: 0.9 }, blows: ['crash agent'] },
  /** Runs that were interrupted can't resume. */
  broken: { ends: { broken: 0.9, deadly: 0 }, blows: ['crash agent', 'evict'] },
  /** Runs end in errors and questions, and their containers end. */
  ends: {
    ends: { finished: 0.1, deadly: 0, broken: 0 },
    actions: ['pause', 'resume', 'start', 'message', 'crash'],
  },
  /** Runs end in questions, and calls that answer them arrive late or without a reply. */
  questions: {
    ends: { finished: 0, deadly: 0, broken: 0, questions: 0.9 },
    answerDoubts: true,
    actions: ['answer', 'answer', 'answer', 'pause', 'resume', 'start', 'delete pod', 'hand over'],
  },
  /** The same with agents that keep their question when they end, and know it by its id. */
  'kept questions': {
    ends: { finished: 0, deadly: 0, broken: 0, questions: 0.9 },
    answerDoubts: true,
    keepsQuestions: true,
    actions: ['answer', 'answer', 'answer', 'pause', 'resume', 'start', 'delete pod', 'hand over'],
  },
  /** Questions outlive pauses, pods and operators, and are answered an hour later. */
  'late answers': {
    ends: { finished: 0, deadly: 0, broken: 0, questions: 0.9 },
    answersLate: true,
    actions: ['pause', 'pause', 'start', 'message', 'delete pod', 'evict', 'hand over', 'restart'],
  },
  /** Operators begin while their caches are filled slowly. */
  restarts: { blows: ['terminate'], chances: { slow: 0.5 }, crowd: true },
  /** Requests are executed, and their answers are lost. */
  answers: { chances: { lostAnswer: 0.3, agentAnswerLost: 0.3 }, crowd: true },
  clocks: {
    slowStarts: true,
    blows: ['jump wall clock'],
    traits: { longJumps: true, startDeadline: '2m', outages: false },
  },
  /** Sandboxes that have run lose pods while no node has room for longer than a start takes. */
  outages: {
    blows: ['evict', 'crash agent', 'lose node'],
    traits: { outages: true, startDeadline: '30s' },
  },
  /** Pods wait in the queues of a cluster for longer than a start may take. */
  gates: {
    gates: true,
    blows: ['evict', 'crash agent', 'terminate'],
    chances: { watchSilent: 0, watchClosed: 0, watchLag: 0 },
    traits: { outages: true, startDeadline: '30s', longJumps: false },
  },
  silence: { traits: { hangs: true, notifications: true }, blows: [] },
  /** The API server fails at one write for longer than any controller waits between two tries. */
  failures: { actions: ['refuse long', 'pause', 'resume'] },
  /** Caches that are behind. */
  lag: { chances: { watchLag: 0.9, late: 0.1 }, crowd: true },
};

export const emphasisOf = (focus: Focus | undefined): Emphasis =>
  focus === undefined ? {} : focuses[focus];
