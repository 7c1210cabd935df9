import { noFilter } from '../filter.ts';
import { usePage } from '../page-state.ts';

/** The text in the place of a list without rows. */
export function EmptyList() {
  const page = usePage();
  if (page.store.rows.size > 0 && page.filter.value !== noFilter)
    return (
      <p class="empty">
        No conversation matches.{' '}
        <button
          type="button"
          class="link"
          onClick={() => {
            page.filter.value = noFilter;
          }}
        >
          Show all
        </button>
      </p>
    );
  return (
    <p class="empty">
      {page.store.isFilled.value
        ? 'There are no conversations yet. Write a message to start one.'
        : 'Reading your conversations…'}
    </p>
  );
}
