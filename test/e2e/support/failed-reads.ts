/** A read without the answer 200. Times are those of the wall clock. */
export interface FailedRead {
  readonly fromMs: number;
  readonly untilMs: number;
  /** The status, or the code of the error. */
  readonly outcome: string;
}

/** A component that was killed or removed, until it worked again. */
export interface Absence {
  readonly component: string;
  readonly fromMs: number;
  readonly untilMs: number;
}

/** A way in which reads may fail while a component is away. */
export interface ExpectedFailure {
  readonly component: string;
  readonly outcomes: readonly string[];
  /** Why no gateway can prevent that. */
  readonly because: string;
}

export interface FailedReads {
  /** A sentence for the failures of each outcome and each set of absent components. */
  readonly sentences: readonly string[];
  /** The sentences whose failures `expected` does not permit. */
  readonly unexpected: readonly string[];
}

/** Time after which the rules of kube-proxy have followed the endpoints of a Service. */
const settleMs = 2000;

const timeOf = (ms: number): string => new Date(ms).toISOString().slice(11, 23);

/** Says which reads have failed while which component was away. */
export function failedReads(
  failures: readonly FailedRead[],
  absences: readonly Absence[],
  expected: readonly ExpectedFailure[],
): FailedReads {
  const awayDuring = ({ fromMs, untilMs }: FailedRead) =>
    absences.filter((absence) => fromMs <= absence.untilMs + settleMs && untilMs >= absence.fromMs);
  const groups = Map.groupBy(failures, (read) =>
    [read.outcome, ...awayDuring(read).map((absence) => absences.indexOf(absence))].join(' '),
  );
  const found = Array.from(groups.values(), (group) => {
    const [first, last] = [group[0], group.at(-1)];
    if (first === undefined || last === undefined) throw new Error('a group is empty');
    const away = awayDuring(first);
    const spans = away.map(
      (absence) =>
        `${absence.component} was away from ${timeOf(absence.fromMs)} to ${timeOf(absence.untilMs)}`,
    );
    return {
      sentence: `${group.length} × ${first.outcome} while ${spans.length === 0 ? 'nothing was away' : spans.join(', and ')}; the first at ${timeOf(first.fromMs)}, the last at ${timeOf(last.fromMs)}`,
      isExpected: expected.some(
        ({ component, outcomes }) =>
          outcomes.includes(first.outcome) && away.some((each) => each.component === component),
      ),
    };
  });
  return {
    sentences: found.map(({ sentence }) => sentence),
    unexpected: found.filter(({ isExpected }) => !isExpected).map(({ sentence }) => sentence),
  };
}
