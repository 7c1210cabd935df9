import { interrupt, offersOf, pause, resume, type Offer } from '../actions.ts';
import { titleOf } from '../facts.ts';
import { usePage } from '../page-state.ts';
import type { Row } from '../row.ts';
import { RowMenu } from './row-menu.tsx';

interface RowActionsProps {
  readonly row: Row;
  readonly onRename: () => void;
  readonly onDelete: () => void;
}

/**
 * The buttons of a row. An action that is under way has the place of the first one, which remains
 * the same element, so that the focus stays on it.
 */
export function RowActions({ row, onRename, onDelete }: RowActionsProps) {
  const page = usePage();
  const facts = row.current.value;
  const title = titleOf(facts);
  const action = row.action.value;
  const pending =
    action !== undefined && action.problem === undefined ? `${action.label}…` : undefined;
  const act = ({ name, progress }: Offer) => {
    if (name === 'pause') void pause(row, progress);
    else if (name === 'interrupt') void interrupt(row, progress);
    else if (name === 'resume') void resume(row, progress);
    else {
      page.draft.fillFrom(row);
      page.isFormOpen.value = true;
      requestAnimationFrame(() => document.getElementById('message')?.focus());
    }
  };
  const [first, ...others] = offersOf(facts);
  const shown = pending === undefined ? [first, ...others] : [first];
  return (
    <span class="row-actions">
      {shown.map((offer, index) =>
        offer === undefined ? null : (
          <button
            key={index}
            type="button"
            class="small"
            aria-disabled={pending !== undefined}
            aria-label={`${pending ?? offer.label}: ${title}`}
            onClick={() => {
              if (pending === undefined) act(offer);
            }}
          >
            {pending ?? offer.label}
          </button>
        ),
      )}
      <span class={first === undefined ? 'pending' : 'unseen'} role="status">
        {pending}
      </span>
      {facts.conversation !== undefined && (
        <RowMenu title={title} onRename={onRename} onDelete={onDelete} />
      )}
    </span>
  );
}
