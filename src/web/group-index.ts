import { batch, signal, type Signal } from '@preact/signals';
import { groups, type Group } from './groups.ts';
import type { Row } from './row.ts';

/** Above this number of changes, a sort is cheaper than single insertions. */
const maxInsertions = 64;

const isBefore = (one: Row, other: Row): boolean => one.sortKey > other.sortKey;
const order = (one: Row, other: Row): number =>
  one.sortKey === other.sortKey ? 0 : isBefore(one, other) ? -1 : 1;

/**
 * The rows of each group, newest first. While the list is held, because a pointer or the focus is
 * in it, no row moves: a row that would move gets a mark, and all of them move at the release.
 */
export class GroupIndex {
  /** Number of rows that wait for the release. */
  readonly waiting = signal(0);
  readonly #rows: Readonly<Record<Group, Signal<readonly Row[]>>>;
  readonly #places = new Map<Row, Group>();
  /** Rows that wait, each with its next group; undefined: the row is gone. */
  readonly #pending = new Map<Row, Group | undefined>();
  #isHeld = false;

  constructor() {
    const empty = () => signal<readonly Row[]>([]);
    this.#rows = {
      'needs-you': empty(),
      working: empty(),
      waiting: empty(),
      paused: empty(),
      finished: empty(),
      failed: empty(),
    };
  }

  /** The rows of a group. A component or a computed value that reads them follows their order. */
  rowsOf(group: Group): readonly Row[] {
    return this.#rows[group].value;
  }

  /** Brings rows to their groups, or out of the list. */
  place(targets: ReadonlyMap<Row, Group | undefined>): void {
    const moves = new Map<Row, Group | undefined>();
    for (const [row, group] of targets) {
      const isMoved = this.#places.get(row) !== group;
      if (this.#isHeld && isMoved) {
        this.#pending.set(row, group);
        row.mark.value = group ?? 'gone';
        continue;
      }
      this.#pending.delete(row);
      row.mark.value = undefined;
      if (isMoved) moves.set(row, group);
    }
    this.waiting.value = this.#pending.size;
    this.#move(moves);
  }

  hold(): void {
    this.#isHeld = true;
  }

  release(): void {
    this.#isHeld = false;
    this.flush();
  }

  /** Moves the rows that wait, also while the list is held. */
  flush(): void {
    const moves = new Map(this.#pending);
    for (const row of moves.keys()) row.mark.value = undefined;
    this.#pending.clear();
    this.waiting.value = 0;
    this.#move(moves);
  }

  #move(moves: ReadonlyMap<Row, Group | undefined>): void {
    batch(() => {
      if (moves.size > maxInsertions) this.#sortIn(moves);
      else for (const [row, group] of moves) this.#insert(row, group);
    });
    for (const [row, group] of moves)
      if (group === undefined) this.#places.delete(row);
      else this.#places.set(row, group);
  }

  #insert(row: Row, group: Group | undefined): void {
    const before = this.#places.get(row);
    if (before !== undefined) {
      const rows = this.#rows[before];
      rows.value = rows.peek().toSpliced(positionOf(rows.peek(), row), 1);
    }
    if (group !== undefined) {
      const rows = this.#rows[group];
      rows.value = rows.peek().toSpliced(positionOf(rows.peek(), row), 0, row);
    }
  }

  #sortIn(moves: ReadonlyMap<Row, Group | undefined>): void {
    for (const group of groups) {
      const rows = this.#rows[group];
      const stay = rows.peek().filter((row) => !moves.has(row));
      const come = [...moves].flatMap(([row, target]) => (target === group ? [row] : []));
      if (come.length > 0 || stay.length < rows.peek().length)
        rows.value = [...stay, ...come].sort(order);
    }
  }
}

/** The position of a row in sorted rows, or the one where it belongs. */
function positionOf(rows: readonly Row[], row: Row): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const other = rows[middle];
    if (other !== undefined && isBefore(other, row)) low = middle + 1;
    else high = middle;
  }
  return low;
}
