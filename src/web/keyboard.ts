import type { PageState } from './page-state.ts';

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof Element && target.closest('input, textarea, select, dialog') !== null;

/** The keys of the pages, each with what it does, as the help shows them. */
export const shortcuts = [
  { keys: ['/'], text: 'Search' },
  { keys: ['n'], text: 'New conversation' },
  { keys: ['j', 'k'], text: 'Next and previous conversation' },
  { keys: ['Enter'], text: 'Open the conversation' },
  { keys: ['f'], text: 'Find in the events of a conversation' },
  { keys: ['?'], text: 'This help' },
] as const;

const focusMessage = () => document.getElementById('message')?.focus();

function act(page: PageState, key: string): boolean {
  switch (key) {
    case '/':
      document.getElementById('search')?.focus();
      return true;
    case 'n':
      page.isFormOpen.value = true;
      // Small windows show the form with the next frame.
      focusMessage();
      requestAnimationFrame(focusMessage);
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
      return false;
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
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (leaves(event) || (!isTyping(event.target) && act(page, event.key))) event.preventDefault();
  });
}
