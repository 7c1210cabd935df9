import { signal, type ReadonlySignal } from '@preact/signals';
import { createdAtOf, sandboxIdOf, type Facts } from './facts.ts';
import { searchTextOf, type Searchable } from './filter.ts';
import { groupOf, type Group } from './groups.ts';

/** An action of a person on one conversation, until the service has confirmed it. */
export interface ActionState {
  readonly label: string;
  /** Reason why the service has refused the action; undefined while it is under way. */
  readonly problem?: string;
  readonly retry?: () => void;
}

/** One conversation of the list. A component that reads `current` follows this one alone. */
export class Row implements Searchable {
  readonly id: string;
  /** The order in a group: newest first. Never changes. */
  readonly sortKey: string;
  /** Group to which the row moves once the list may move; undefined where it is in place. */
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
    // The news answers an action that the service has accepted. An action that has failed for one
    // sandbox is not to be tried again with another one.
    const isReplaced = before !== undefined && before !== sandboxIdOf(facts);
    if (isReplaced || this.action.peek()?.problem === undefined) this.action.value = undefined;
  }
}
