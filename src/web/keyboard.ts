import { isManyKey, manyKeys } from './selection.ts';
import type { PageState } from './page-state.ts';

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof Element &&
  target.closest('input:not([type=checkbox]), textarea, select, dialog') !== null;

interface Shortcut {
  readonly keys: readonly string[];
  readonly text: string;
  /** The only page on which the keys act; if undefined, the keys act on all pages. */
  readonly on?: 'home' | 'conversation';
  /** Whether the session may use the keys; if undefined, each session may. */
  readonly isAllowed?: (page: PageState) => boolean;
}

const mayStart: Shortcut['isAllowed'] = (page) => page.may('start');
const maySelect: Shortcut['isAllowed'] = (page) => page.maySelect();

const shortcuts: readonly Shortcut[] = [
  { keys: ['/'], text: 'Search', on: 'home' },
  { keys: ['n'], text: 'New conversation', on: 'home', isAllowed: mayStart },
  { keys: ['j', 'k'], text: 'Next and previous conversation', on: 'home' },
  { keys: ['Enter'], text: 'Open the conversation', on: 'home' },
  { keys: ['f'], text: 'Find in the events of the conversation', on: 'conversation' },
  { keys: ['x'], text: 'Select the conversation, or not', on: 'home', isAllowed: maySelect },
  {
    keys: ['J', 'K'],
    text: 'Select the next and the previous one too',
    on: 'home',
    isAllowed: maySelect,
  },
  { keys: ['a'], text: 'Select all that are shown', on: 'home', isAllowed: maySelect },
  {
    keys: Object.keys(manyKeys),
    text: 'Pause, resume, retry, delete the selected ones',
    on: 'home',
    isAllowed: maySelect,
  },
  { keys: ['Esc'], text: 'Select none', on: 'home', isAllowed: maySelect },
  { keys: ['?'], text: 'This help' },
];

const pageOf = (path: string): Shortcut['on'] =>
  path === '/' ? 'home' : path.startsWith('/c/') ? 'conversation' : undefined;

export const shortcutsOn = (path: string, page: PageState): readonly Shortcut[] =>
  shortcuts.filter(
    ({ on, isAllowed }) => (on === undefined || on === pageOf(path)) && isAllowed?.(page) !== false,
  );

function actOnSelection(page: PageState, key: string): boolean {
  const { selection, active } = page;
  if (!page.maySelect()) return false;
  switch (key) {
    case 'x':
      if (active.peek() !== undefined) selection.toggle(active.peek() ?? '');
      return true;
    case 'J':
      page.extend(1);
      return true;
    case 'K':
      page.extend(-1);
      return true;
    case 'a':
      page.selectShown();
      return true;
  }
  if (page.selected.peek().length === 0) return false;
  if (key === 'Escape') selection.clear();
  else if (isManyKey(key)) selection.wanted.value = manyKeys[key];
  else return false;
  return true;
}

function actAtHome(page: PageState, key: string): boolean {
  switch (key) {
    case '/':
      document.getElementById('search')?.focus();
      return true;
    case 'n':
      if (page.may('start')) page.openForm();
      return true;
    case 'j':
      page.move(1);
      return true;
    case 'k':
      page.move(-1);
      return true;
    default:
      return actOnSelection(page, key);
  }
}

function act(page: PageState, key: string): boolean {
  if (key === '?') {
    page.isHelpOpen.value = true;
    return true;
  }
  const at = pageOf(location.pathname);
  if (at === 'home') return actAtHome(page, key);
  if (at !== 'conversation' || key !== 'f') return false;
  document.getElementById('find-open')?.click();
  return true;
}

/** Escape leaves a text field and keeps its text, so that a search remains. */
function leaves({ key, target }: KeyboardEvent): boolean {
  if (key !== 'Escape' || !(target instanceof HTMLElement)) return false;
  if (target.closest('dialog, .row') !== null || !isTyping(target)) return false;
  target.blur();
  return true;
}

/** Handles single keys outside of text fields. On Enter, the browser opens the focused link. */
export function listenToKeys(page: PageState): void {
  addEventListener('keydown', (event) => {
    // A menu or a question prevents the default of an Escape key that it handles.
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (leaves(event) || (!isTyping(event.target) && act(page, event.key))) event.preventDefault();
  });
}
