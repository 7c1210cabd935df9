import { sandboxIdOf, sandboxStatusOf, type Facts } from '../sentences/facts.ts';
import { groupNames, groups } from '../sentences/groups.ts';
import { offersOf } from './offers.ts';
import type { Scope } from './rights.ts';
import type { Row } from './row.ts';
import type { ManyAction } from './selection.ts';

/** Maximum concurrent requests of one action. */
const maxRequests = 4;

interface Kind {
  readonly label: string;
  readonly progress: string;
  readonly done: string;
  readonly warning: readonly [one: string, several: string];
  /** Whether the action applies to a whole sandbox, with all of its conversations. */
  readonly isOfSandbox: boolean;
  /** Scope without which the gateway refuses the action. */
  readonly scope: Scope;
  readonly fits: (facts: Facts) => boolean;
}

const offers = (facts: Facts, name: string): boolean =>
  offersOf(facts).some((offer) => offer.name === name);

export const manyActions: Readonly<Record<ManyAction, Kind>> = {
  pause: {
    label: 'Pause',
    progress: 'Pausing',
    done: 'paused',
    isOfSandbox: true,
    scope: 'manage',
    warning: ['A run of its agent is interrupted.', 'Runs of their agents are interrupted.'],
    fits: (facts) => offers(facts, 'pause'),
  },
  resume: {
    label: 'Resume',
    progress: 'Resuming',
    done: 'resumed',
    isOfSandbox: true,
    scope: 'manage',
    warning: [
      'Without room in the quota, it waits or pauses another one.',
      'Those without room in the quota wait or pause others.',
    ],
    fits: (facts) => offers(facts, 'resume'),
  },
  retry: {
    label: 'Retry',
    progress: 'Starting',
    done: 'started again',
    isOfSandbox: false,
    scope: 'start',
    warning: [
      'A new conversation gets the same message and settings, without secrets of the start. The failed one stays.',
      'New conversations get the same messages and settings, without secrets of the starts. The failed ones stay.',
    ],
    fits: (facts) => sandboxStatusOf(facts) === 'ERROR' && offers(facts, 'start-again'),
  },
  delete: {
    label: 'Delete',
    progress: 'Deleting',
    done: 'deleted',
    isOfSandbox: false,
    scope: 'manage',
    warning: [
      'Its files and its history are deleted too.',
      'Their files and histories are deleted too.',
    ],
    fits: ({ conversation }) => conversation !== undefined,
  },
};

/** The rows to which an action applies. A computed value that reads them tracks their states. */
export const fittingRows = (action: ManyAction, rows: readonly Row[]): readonly Row[] =>
  rows.filter(({ current }) => manyActions[action].fits(current.value));

/** An action and its conversations, each with its group at the time of the question. */
export interface ManyQuestion {
  readonly action: ManyAction;
  readonly groupsOf: ReadonlyMap<Row, Row['group']>;
  readonly text: string;
}

const counted = (count: number, noun: string): string =>
  `${count} ${noun}${count === 1 ? '' : 's'}`;

/** The question before an action names the conversations by group, hidden ones and consequences. */
export function questionFor(
  action: ManyAction,
  rows: readonly Row[],
  all: Iterable<Row>,
  isShown: (row: Row) => boolean = () => true,
): ManyQuestion {
  const { label, warning, isOfSandbox, done } = manyActions[action];
  const numbers = groups.flatMap((group) => {
    const count = rows.filter((row) => row.group === group).length;
    return count === 0 ? [] : [`${count} ${groupNames[group]}`];
  });
  const hidden = rows.filter((row) => !isShown(row)).length;
  const chosen = new Set(rows);
  const sandboxes = new Set(isOfSandbox ? rows.map(({ facts }) => sandboxIdOf(facts)) : []);
  sandboxes.delete(undefined);
  const sharing = [...all].filter(
    (row) => !chosen.has(row) && sandboxes.has(sandboxIdOf(row.facts)),
  ).length;
  const verb = action === 'retry' ? 'Start' : label;
  return {
    action,
    groupsOf: new Map(rows.map((row) => [row, row.group])),
    text: [
      `${verb} ${counted(rows.length, 'conversation')}${action === 'retry' ? ' again' : ''} (${numbers.join(', ')}${hidden === 0 ? '' : `; ${hidden} not shown by the filter`})?`,
      warning[rows.length === 1 ? 0 : 1],
      sharing === 0
        ? ''
        : `${counted(sharing, 'conversation')} in the same sandboxes ${sharing === 1 ? 'is' : 'are'} ${done} too.`,
    ]
      .filter(Boolean)
      .join(' '),
  };
}

interface ManyProgress {
  /** Returns whether the gateway has accepted the action; if not, the row shows the problem. */
  readonly act: (row: Row) => Promise<boolean>;
  /** Whether the page still shows this row under its id. */
  readonly isThere: (row: Row) => boolean;
  readonly onAnswer: (answered: number) => void;
}

export interface ManyOutcome {
  readonly done: readonly Row[];
  readonly failed: readonly Row[];
  /** Conversations that were skipped, because they have changed since the question. */
  readonly changed: readonly Row[];
}

/**
 * Performs a confirmed action with at most four concurrent requests. Skips conversations to which
 * the action no longer applies, or whose group has changed. A failed row shows the reason.
 */
export async function performMany(
  { action, groupsOf }: ManyQuestion,
  { act, isThere, onAnswer }: ManyProgress,
): Promise<ManyOutcome> {
  const { fits, isOfSandbox } = manyActions[action];
  const rows = [...groupsOf.keys()];
  const isSame = (row: Row): boolean => row.group === groupsOf.get(row);
  const done: Row[] = [];
  const failed: Row[] = [];
  const changed = rows.filter((row) => !isSame(row));
  const queue = rows.filter(isSame).values();
  let answered = 0;
  const work = async () => {
    for (const row of queue) {
      // An action on a sandbox moves all its conversations, so a moved conversation is not skipped.
      const isChanged = !isOfSandbox && !isSame(row);
      if (!isThere(row) || !fits(row.facts) || isChanged) changed.push(row);
      else if (await act(row)) done.push(row);
      else failed.push(row);
      onAnswer(++answered);
    }
  };
  await Promise.all(Array.from({ length: maxRequests }, work));
  return { done, failed, changed };
}

export function outcomeOf(action: ManyAction, { done, failed, changed }: ManyOutcome): string {
  return [
    `${done.length} ${manyActions[action].done}.`,
    failed.length === 0 ? '' : `${failed.length} failed: each says why.`,
    changed.length === 0
      ? ''
      : `${counted(changed.length, 'conversation')} changed after the question, and ${changed.length === 1 ? 'was' : 'were'} left as ${changed.length === 1 ? 'it is' : 'they are'}.`,
  ]
    .filter(Boolean)
    .join(' ');
}
