import { sandboxIdOf, sandboxStatusOf, type Facts } from './facts.ts';
import { groupNames, groups } from './groups.ts';
import { offersOf } from './offers.ts';
import type { Row } from './row.ts';
import type { ManyAction } from './selection.ts';

/** Maximum number of requests of one action at a time. */
const maxRequests = 4;

interface Kind {
  readonly label: string;
  readonly progress: string;
  readonly done: string;
  /** The consequences, for one conversation and for several. */
  readonly warning: readonly [one: string, several: string];
  /** Whether the action applies to a sandbox with all of its conversations. */
  readonly isOfSandbox: boolean;
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
    warning: ['A run of its agent is interrupted.', 'Runs of their agents are interrupted.'],
    fits: (facts) => offers(facts, 'pause'),
  },
  resume: {
    label: 'Resume',
    progress: 'Resuming',
    done: 'resumed',
    isOfSandbox: true,
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
    warning: [
      'Its files and its history are deleted too.',
      'Their files and histories are deleted too.',
    ],
    fits: ({ conversation }) => conversation !== undefined,
  },
};

/** The rows that an action fits. A computed value that reads them follows their states. */
export const fittingRows = (action: ManyAction, rows: readonly Row[]): readonly Row[] =>
  rows.filter(({ current }) => manyActions[action].fits(current.value));

/** An action and the conversations that it is asked for, each with its group at that time. */
export interface ManyQuestion {
  readonly action: ManyAction;
  readonly groupsOf: ReadonlyMap<Row, Row['group']>;
  readonly text: string;
}

const counted = (count: number, noun: string): string =>
  `${count} ${noun}${count === 1 ? '' : 's'}`;

/** The question before an action: how many, of which groups, how many hidden, and what follows. */
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
  /** Returns whether the service has accepted the action; otherwise the row's problem says why. */
  readonly act: (row: Row) => Promise<boolean>;
  /** Whether a row is still the one that the page shows under its id. */
  readonly isThere: (row: Row) => boolean;
  readonly onAnswer: (answered: number) => void;
}

export interface ManyOutcome {
  readonly done: readonly Row[];
  readonly failed: readonly Row[];
  /** Conversations that have changed since the question, and were left as they are. */
  readonly changed: readonly Row[];
}

/**
 * Does what a person has confirmed, with at most four requests at a time. A conversation that has
 * another group than in the question, or that the action fits no more, is left as it is. The reason
 * of a failure is in the row.
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
      // The action on one conversation moves those that share its sandbox.
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
