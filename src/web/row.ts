import { signal, type ReadonlySignal } from '@preact/signals';
import { createdAtOf, sandboxIdOf, type Facts } from '../sentences/facts.ts';
import { searchTextOf, type Searchable } from './filter.ts';
import { groupOf, type Group } from '../sentences/groups.ts';

/** A user's action on one conversation, until the gateway has confirmed it. */
export interface ActionState {
  readonly label: string;
  /** The reason why the gateway has refused the action; undefined during the request. */
  readonly problem?: string;
  readonly retry?: () => void;
}

/** URLs at which the page reads one conversation. */
export interface ConversationPaths {
  readonly base: string;
  readonly events: string;
  /** Whether another person shares the conversation, for reading. */
  readonly isShared: boolean;
}

const ownPaths = (id: string): ConversationPaths => ({
  base: `/api/v1/app-conversations/${id}`,
  events: `/api/v1/conversation/${id}/events`,
  isShared: false,
});

/** One conversation of the list. A component that reads `current` subscribes to this row only. */
export class Row implements Searchable {
  readonly id: string;
  readonly paths: ConversationPaths;
  /** The order in a group, newest first. Never changes. */
  readonly sortKey: string;
  /** Group to which the row moves after `GroupIndex.release`; undefined if the row stays. */
  readonly mark = signal<Group | 'gone' | undefined>(undefined);
  readonly action = signal<ActionState | undefined>(undefined);
  readonly #facts;
  searchText: string;
  group: Group;

  constructor(id: string, facts: Facts, paths: ConversationPaths = ownPaths(id)) {
    this.id = id;
    this.paths = paths;
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
    // New facts confirm an accepted action. A failed action stays only while the row has the same
    // sandbox, because a retry must not apply to another sandbox.
    const isReplaced = before !== undefined && before !== sandboxIdOf(facts);
    if (isReplaced || this.action.peek()?.problem === undefined) this.action.value = undefined;
  }
}
