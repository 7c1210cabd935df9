import { offersOf, pause, resume, type Offer } from '../actions.ts';
import { titleOf } from '../facts.ts';
import { usePage } from '../page-state.ts';
import type { Row } from '../row.ts';
import { RowMenu } from './row-menu.tsx';

interface RowActionsProps {
  readonly row: Row;
  readonly onRename: () => void;
  readonly onDelete: () => void;
}

/** The buttons of a row, or in their place the action that is under way. */
export function RowActions({ row, onRename, onDelete }: RowActionsProps) {
  const page = usePage();
  const facts = row.current.value;
  const action = row.action.value;
  const act = (offer: Offer) => {
    if (offer.name === 'pause') void pause(row, offer);
    else if (offer.name === 'resume') void resume(row, offer);
    else {
      page.draft.fillFrom(row);
      page.isFormOpen.value = true;
      requestAnimationFrame(() => document.getElementById('message')?.focus());
    }
  };
  if (action !== undefined && action.problem === undefined)
    return (
      <span class="row-actions pending" role="status">
        {action.label}…
      </span>
    );
  return (
    <span class="row-actions">
      {offersOf(facts).map((offer) => (
        <button
          key={offer.name}
          type="button"
          class="small"
          aria-label={`${offer.label}: ${titleOf(facts)}`}
          onClick={() => act(offer)}
        >
          {offer.label}
        </button>
      ))}
      {facts.conversation !== undefined && (
        <RowMenu title={titleOf(facts)} onRename={onRename} onDelete={onDelete} />
      )}
    </span>
  );
}
