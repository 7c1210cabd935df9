import { computed, effect, signal } from '@preact/signals';
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import { api } from './api.ts';
import { ChangeQueue, Store } from './store.ts';
import { BudgetWatch } from './budget-watch.ts';
import { Draft } from './draft.ts';
import { filterOf, isFiltered, matcherOf } from './filter.ts';
import { groups, type Group } from '../sentences/groups.ts';
import { pausedTitles } from '../sentences/forecast.ts';
import { Handovers } from './handovers.ts';
import { lackIn, mayIn, type Scope } from './rights.ts';
import type { Row } from './row.ts';
import { SavedTexts } from './saved-texts.ts';
import { Selection } from './selection.ts';
import { serviceTime } from './times.ts';
import { ChangeStream } from './stream.ts';
import type { AccountRecord, SandboxSpecRecord } from './wire.ts';

export interface GroupRows {
  readonly group: Group;
  readonly rows: readonly Row[];
}

/** Minimum characters of a text that the gateway searches for. */
export const minSought = 2;

/** The text of the last search, if the URL contains the same text. */
function soughtBefore(): string | undefined {
  const kept = sessionStorage.getItem('sought');
  const text = new URLSearchParams(location.search).get('q');
  return kept !== null && kept === text?.trim() ? kept : undefined;
}

/** Delay before another read of the account after a failed one. */
const accountRetryMs = 5_000;

export class PageState {
  readonly store = new Store();
  readonly changes = new ChangeQueue(this.store);
  readonly stream = new ChangeStream((parse) => this.changes.push(parse));
  readonly filter = signal(filterOf(location.search));
  readonly selection = new Selection();
  readonly handovers = new Handovers();
  readonly budget = new BudgetWatch(this.store.spendings);
  readonly savedFilters = new SavedTexts('filters');
  readonly savedMessages = new SavedTexts('messages');
  /** The current time of the gateway, updated every second while the page is visible. */
  readonly now = signal(serviceTime());
  /** Id of the row that the keyboard acts on. */
  readonly active = signal<string | undefined>(undefined);
  /** The text whose matches in the conversations are shown; undefined without a search. */
  readonly sought = signal(soughtBefore());
  /** The title of the page, without the number of conversations that need the user. */
  readonly title = signal('Conversations');
  readonly isFormOpen = signal(false);
  readonly isHelpOpen = signal(false);
  readonly draft = new Draft(this.store);
  /** The templates that a start may name; empty until the start form has read them. */
  readonly specs = signal<readonly SandboxSpecRecord[]>([]);
  /** Undefined until it has been read. */
  readonly account = signal<AccountRecord | undefined>(undefined);
  /** Whether the gateway also serves the official web UI, with its chats at /conversations/{id}. */
  readonly hasUi: boolean;

  constructor({ hasUi }: { readonly hasUi: boolean }) {
    this.hasUi = hasUi;
    // Stores the text, so that the browser's back button returns to the same matches.
    effect(() => {
      const { value } = this.sought;
      if (value === undefined) sessionStorage.removeItem('sought');
      else sessionStorage.setItem('sought', value);
    });
  }

  /** Begins to read the owner's records, which a page without an owner does not. Called once. */
  open(): void {
    void this.#readAccount();
    const isOpen = computed(() => this.stream.state.value.isOpen);
    let wasOpen = false;
    effect(() => {
      if (!isOpen.value) return;
      // Another session may have begun while the stream was closed, with other rights.
      if (wasOpen) void this.#readAccount();
      wasOpen = true;
    });
    this.stream.open();
    this.handovers.open();
  }

  /** Whether the session opens operations of a scope; false until the account is known. */
  may = (scope: Scope): boolean => mayIn(this.account.value, scope);

  /** Whether the session may do anything with selected conversations. */
  maySelect = (): boolean => this.may('start') || this.may('manage');

  /** Why a control is absent; undefined if the session may use it, or is not known yet. */
  lackOf = (scope: Parameters<typeof lackIn>[1]): string | undefined =>
    lackIn(this.account.value, scope);

  /** The rows that match the filter, without empty groups. */
  readonly lists = computed((): readonly GroupRows[] => {
    const filter = this.filter.value;
    const matches = isFiltered(filter) ? matcherOf(filter) : undefined;
    return groups
      .filter((group) => filter.group === '' || filter.group === group)
      .map((group) => {
        const rows = this.store.index.rowsOf(group);
        return { group, rows: matches === undefined ? rows : rows.filter(matches) };
      })
      .filter(({ rows }) => rows.length > 0);
  });

  /** The selected conversations that exist, including those that the filter hides. */
  readonly selected = computed((): readonly Row[] =>
    [...this.selection.ids.value].flatMap((id) => this.store.rowOf(id) ?? []),
  );

  /** Titles of the conversations that a resume with a run would pause. */
  readonly resumePauses = computed(() => {
    const quota = this.store.quota.value;
    return quota && pausedTitles(quota, this.store.titleOf);
  });

  async #readAccount(): Promise<void> {
    try {
      const account = await api.get<AccountRecord>('/api/v1/users/me', {});
      const isOther = account.id !== this.account.peek()?.id;
      this.account.value = account;
      if (!isOther) return;
      this.savedFilters.open(account.id);
      this.savedMessages.open(account.id);
    } catch {
      setTimeout(() => void this.#readAccount(), accountRetryMs);
    }
  }

  selectShown(): void {
    this.selection.add(this.lists.peek().flatMap(({ rows }) => rows.map(({ id }) => id)));
  }

  /** Calls `move`, and selects both the previous and the new active row. */
  extend(step: 1 | -1): void {
    const before = this.active.peek();
    this.move(step);
    this.selection.add([before, this.active.peek()].filter((id) => id !== undefined));
  }

  seek(): void {
    const text = this.filter.peek().text.trim();
    if (text.length >= minSought) this.sought.value = text;
  }

  /** Opens the start form. In small windows, its field can get the focus only in the next frame. */
  openForm(): void {
    const focus = () => document.getElementById('message')?.focus();
    this.isFormOpen.value = true;
    focus();
    requestAnimationFrame(focus);
  }

  /** Makes the next row the active one, or the previous row if `step` is -1. */
  move(step: 1 | -1): void {
    const rows = this.lists.peek().flatMap((list) => list.rows);
    const present = rows.findIndex(({ id }) => id === this.active.peek());
    const next = present < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, present + step));
    const id = rows[next]?.id;
    if (id === undefined) return;
    this.active.value = id;
    // The list always renders the active row, and the browser scrolls to the focused element.
    requestAnimationFrame(() => document.getElementById(`row-${id}`)?.focus());
  }
}

export const PageContext = createContext<PageState | undefined>(undefined);

export function usePage(): PageState {
  const page = useContext(PageContext);
  if (page === undefined) throw new Error('A component is outside of its page');
  return page;
}
