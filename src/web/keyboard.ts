import { isManyKey, manyKeys } from './selection.ts';
import type { PageState } from './page-state.ts';

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof Element &&
  target.closest('input:not([type=checkbox]), textarea, select, dialog') !== null;

/** The keys of the pages, each with what it does, as the help shows them. */
export const shortcuts = [
  { keys: ['/'], text: 'Search' },
  { keys: ['n'], text: 'New conversation' },
  { keys: ['j', 'k'], text: 'Next and previous conversation' },
  { keys: ['Enter'], text: 'Open the conversation' },
  { keys: ['f'], text: 'Find in the events of a conversation' },
  { keys: ['x'], text: 'Select the conversation, or not' },
  { keys: ['J', 'K'], text: 'Select the next and the previous one too' },
  { keys: ['a'], text: 'Select all that are shown' },
  { keys: Object.keys(manyKeys), text: 'Pause, resume, retry, delete the selected ones' },
  { keys: ['Esc'], text: 'Select none' },
  { keys: ['?'], text: 'This help' },
] as const;

function actOnSelection(page: PageState, key: string): boolean {
  const { selection, active } = page;
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

function act(page: PageState, key: string): boolean {
  switch (key) {
    case '/':
      document.getElementById('search')?.focus();
      return true;
    case 'n':
      page.openForm();
      return true;
    case 'j':
      page.move(1);
      return true;
    case 'k':
      page.move(-1);
      return true;
    case 'f':
      document.getElementById('find-open')?.click();
      return true;
    case '?':
      page.isHelpOpen.value = true;
      return true;
    default:
      return actOnSelection(page, key);
  }
}

/** Escape leaves a field, which keeps its text: a search remains while a person moves in the list. */
function leaves({ key, target }: KeyboardEvent): boolean {
  if (key !== 'Escape' || !(target instanceof HTMLElement)) return false;
  if (target.closest('dialog, .row') !== null || !isTyping(target)) return false;
  target.blur();
  return true;
}

/** Single keys act wherever nothing takes text. A browser itself opens the focused link on Enter. */
export function listenToKeys(page: PageState): void {
  addEventListener('keydown', (event) => {
    // A menu or a question has its own meaning of Escape.
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (leaves(event) || (!isTyping(event.target) && act(page, event.key))) event.preventDefault();
  });
}
