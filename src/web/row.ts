import { signal, type ReadonlySignal } from '@preact/signals';
import { createdAtOf, sandboxIdOf, type Facts } from './facts.ts';
import { searchTextOf, type Searchable } from './filter.ts';
import { groupOf, type Group } from './groups.ts';

export interface ActionState {
  readonly label: string;
  /** The reason why the service has refused it; undefined while it is under way. */
  readonly problem?: string;
  readonly retry?: () => void;
}

/** One conversation of the list. A component that reads `current` follows this one alone. */
export class Row implements Searchable {
  readonly id: string;
  /** The order in a group: newest first. Never changes. */
  readonly sortKey: string;
  /** Where the row goes once the list may move; undefined where it is in its place. */
  readonly mark = signal<Group | 'gone' | undefined>(undefined);
  readonly action = signal<ActionState | undefined>(undefined);
  readonly #facts;
  searchText: string;
  group: Group;

  constructor(id: string, facts: Facts) {
    this.id = id;
    this.sortKey = `${createdAtOf(facts)} ${id}`;
    this.#facts = signal(facts);
    this.searchText = searchTextOf(facts);
    this.group = groupOf(facts);
  }

  get facts(): Facts {
    return this.#facts.peek();
  }

  get current(): ReadonlySignal<Facts> {
    return this.#facts;
  }

  set(facts: Facts): void {
    const before = sandboxIdOf(this.facts);
    this.#facts.value = facts;
    this.searchText = searchTextOf(facts);
    this.group = groupOf(facts);
    // The news answers an accepted action. One that failed for a sandbox is not tried with another.
    const isReplaced = before !== undefined && before !== sandboxIdOf(facts);
    if (isReplaced || this.action.peek()?.problem === undefined) this.action.value = undefined;
  }
}
