import { computed, signal, batch, type Signal } from '@preact/signals';
import { conversationIdOfStartTask } from '../resources/start-task-id.ts';
import { sandboxIdOf, titleOf, type Facts } from '../sentences/facts.ts';
import { type Group, groups } from '../sentences/groups.ts';
import { spendingOf } from './money.ts';
import { Row } from './row.ts';
import type {
  ConversationRecord,
  QuotaRecord,
  Removed,
  SandboxRecord,
  StartTask,
  Change,
  Snapshot,
} from './wire.ts';

/** The conversation id in the name of a sandbox that was created for a conversation. */
const idInName = (sandboxId: string): string => sandboxId.slice('sbx-'.length);

/**
 * All records of the page, by conversation id. Changed rows reach `index` only in `settle`, so that
 * many changes at once change the list once.
 */
export class Store {
  readonly index = new GroupIndex();
  readonly quota = signal<QuotaRecord | undefined>(undefined);
  /** Whether the first snapshot is complete. */
  readonly isFilled = signal(false);
  /** Number of changes of what conversations have spent. */
  readonly spendings = signal(0);
  readonly rows = new Map<string, Row>();
  /** Changes when a row is added or removed. */
  readonly #membership = signal(0);
  readonly #sandboxes = new Map<string, SandboxRecord>();
  /** A sandbox whose last conversation is deleted has an empty set until its own deletion. */
  readonly #rowsBySandbox = new Map<string, Set<Row>>();
  /** Changes when a sandbox changes, or when a row gets another sandbox. */
  readonly #occupation = signal(0);
  readonly #unsettled = new Map<Row, Group | undefined>();
  /** Ids in the snapshot that is being received; undefined outside of a snapshot. */
  #seen: Set<string> | undefined;

  /** Sandboxes that were started without a conversation and have none, newest first. */
  readonly bareSandboxes = computed((): readonly SandboxRecord[] => {
    const { value: _occupation } = this.#occupation;
    // In a snapshot, sandboxes arrive before conversations.
    if (!this.isFilled.value) return [];
    return [...this.#sandboxes.values()]
      .filter(({ id }) => !this.#rowsBySandbox.has(id) && this.rowOf(idInName(id)) === undefined)
      .sort((one, other) => (one.created_at < other.created_at ? 1 : -1));
  });

  putConversation(conversation: ConversationRecord): void {
    this.#seen?.add(conversation.id);
    const before = this.rows.get(conversation.id)?.facts.conversation;
    if (before !== undefined && spendingOf(before)?.cost !== spendingOf(conversation)?.cost)
      this.spendings.value = this.spendings.peek() + 1;
    this.#put(conversation.id, { conversation });
  }

  putTask(task: StartTask): void {
    const id = conversationIdOfStartTask(task.id);
    this.#seen?.add(id);
    this.#put(id, { task });
  }

  putSandbox(sandbox: SandboxRecord): void {
    this.#seen?.add(sandbox.id);
    this.#sandboxes.set(sandbox.id, sandbox);
    this.#occupation.value = this.#occupation.peek() + 1;
    for (const row of this.#rowsBySandbox.get(sandbox.id) ?? [])
      this.#set(row, { ...row.facts, sandbox });
  }

  remove({ kind, id }: Removed): void {
    if (kind === 'conversation') this.#removeRow(id);
    else if (kind === 'sandbox') this.#removeSandbox(id);
    else {
      const row = this.rows.get(conversationIdOfStartTask(id));
      if (row?.facts.conversation === undefined) this.#removeRow(row?.id ?? '');
      else this.#set(row, { ...row.facts, task: undefined });
    }
  }

  beginSnapshot(): void {
    this.#seen ??= new Set();
  }

  /** Removes the records that the snapshot does not contain. */
  endSnapshot(): void {
    const seen = this.#seen ?? new Set();
    this.#seen = undefined;
    for (const id of [...this.rows.keys()]) if (!seen.has(id)) this.#removeRow(id);
    for (const id of [...this.#sandboxes.keys()]) if (!seen.has(id)) this.#removeSandbox(id);
    this.isFilled.value = true;
  }

  /** Moves all changed rows to their groups. */
  settle(): void {
    this.index.place(this.#unsettled);
    this.#unsettled.clear();
  }

  /** The row of a conversation. A component that reads it is updated when the row comes or goes. */
  rowOf(id: string): Row | undefined {
    const { value: _version } = this.#membership;
    return this.rows.get(id);
  }

  titleOf = (id: string): string | undefined => {
    const row = this.rows.get(id);
    return row && titleOf(row.facts);
  };

  #put(id: string, news: Facts): void {
    const row = this.rows.get(id);
    const facts = { ...row?.facts, ...news };
    const sandboxId = sandboxIdOf(facts);
    const sandbox = sandboxId === undefined ? undefined : this.#sandboxes.get(sandboxId);
    const next = { ...facts, sandbox };
    const stored = row ?? new Row(id, next);
    this.#set(stored, next);
    if (row !== undefined) return;
    this.rows.set(id, stored);
    this.#membership.value = this.#membership.peek() + 1;
  }

  #set(row: Row, facts: Facts): void {
    const [before, after] = [sandboxIdOf(row.facts), sandboxIdOf(facts)];
    if (before !== after) this.#occupation.value = this.#occupation.peek() + 1;
    if (before !== undefined && before !== after) this.#rowsBySandbox.get(before)?.delete(row);
    if (after !== undefined) {
      const sharers = this.#rowsBySandbox.get(after) ?? new Set();
      this.#rowsBySandbox.set(after, sharers.add(row));
    }
    if (facts !== row.facts) row.set(facts);
    this.#unsettled.set(row, row.group);
  }

  #removeRow(id: string): void {
    const row = this.rows.get(id);
    if (row === undefined) return;
    this.rows.delete(id);
    this.#membership.value = this.#membership.peek() + 1;
    const sandboxId = sandboxIdOf(row.facts);
    if (sandboxId !== undefined) this.#rowsBySandbox.get(sandboxId)?.delete(row);
    this.#unsettled.set(row, undefined);
  }

  #removeSandbox(id: string): void {
    this.#sandboxes.delete(id);
    this.#occupation.value = this.#occupation.peek() + 1;
    const rows = this.#rowsBySandbox.get(id);
    if (rows?.size === 0) this.#rowsBySandbox.delete(id);
    for (const row of rows ?? []) this.#set(row, { ...row.facts, sandbox: undefined });
  }
}

/** Number of changes above which one sort is cheaper than single insertions. */
const maxInsertions = 64;

const isBefore = (one: Row, other: Row): boolean => one.sortKey > other.sortKey;
const order = (one: Row, other: Row): number =>
  one.sortKey === other.sortKey ? 0 : isBefore(one, other) ? -1 : 1;

/**
 * The rows of each group, newest first. While a pointer or the focus is in the list, `hold` keeps
 * rows in place: a row that would move gets a `mark`, and moves when `release` is called.
 */
class GroupIndex {
  /** Number of rows that `release` moves. */
  readonly waiting = signal(0);
  readonly #rows: Readonly<Record<Group, Signal<readonly Row[]>>>;
  readonly #places = new Map<Row, Group>();
  /** Rows that `release` moves, each with its next group; undefined if the row is gone. */
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

  /** The rows of a group. A component or computed value that reads them subscribes to changes. */
  rowsOf(group: Group): readonly Row[] {
    return this.#rows[group].value;
  }

  /** Moves rows to their groups, or removes them from the list. */
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

  /** Moves the rows in `#pending`, even while `hold` keeps rows in place. */
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

/** The position of a row in sorted rows, or the position at which to insert it. */
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

/** Maximum duration of one slice of changes, so that the page stays responsive. */
const sliceMs = 8;

function* stepsOf(store: Store, change: Change): Generator<void> {
  switch (change.kind) {
    case 'snapshot':
      yield* stepsOfSnapshot(store, change.data);
      return;
    case 'conversation':
      store.putConversation(change.data);
      return;
    case 'start_task':
      store.putTask(change.data);
      return;
    case 'sandbox':
      store.putSandbox(change.data);
      return;
    case 'quota':
      store.quota.value = change.data;
      return;
    case 'removed':
      store.remove(change.data);
      return;
  }
}

function* stepsOfSnapshot(store: Store, snapshot: Snapshot): Generator<void> {
  store.beginSnapshot();
  // Sandboxes come first, so that each conversation finds its sandbox and changes only once.
  for (const sandbox of snapshot.sandboxes) {
    store.putSandbox(sandbox);
    yield;
  }
  for (const task of snapshot.start_tasks) {
    store.putTask(task);
    yield;
  }
  for (const conversation of snapshot.conversations) {
    store.putConversation(conversation);
    yield;
  }
  // The quota comes after the conversations, because its texts contain their titles.
  store.quota.value = snapshot.quota;
  if (snapshot.last) store.endSnapshot();
}

/**
 * Applies changes in their order. Changes that arrive together change the list once. Many changes
 * are parsed and applied in slices of `sliceMs`.
 */
export class ChangeQueue {
  readonly #store: Store;
  readonly #waiting: (() => Change)[] = [];
  #steps: Generator<void> | undefined;
  #isScheduled = false;

  constructor(store: Store) {
    this.#store = store;
  }

  push(parse: () => Change): void {
    this.#waiting.push(parse);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setTimeout(this.#run);
  }

  #run = (): void => {
    const deadline = performance.now() + sliceMs;
    this.#isScheduled = false;
    batch(() => {
      while (this.#step())
        if (performance.now() > deadline) {
          this.#schedule();
          break;
        }
      this.#store.settle();
    });
  };

  /** Applies a part of the queued changes. Returns whether more may be left. */
  #step(): boolean {
    if (this.#steps === undefined) {
      const parse = this.#waiting.shift();
      if (parse === undefined) return false;
      this.#steps = stepsOf(this.#store, parse());
    }
    if (this.#steps.next().done === true) this.#steps = undefined;
    return true;
  }
}
