import { useEffect, useRef } from 'preact/hooks';
import type { Entry } from '../../settings.ts';
import { ActionProblem } from '../action-problem.tsx';

interface DeleteProps {
  readonly name: string;
  readonly entry: Entry<unknown>;
  readonly onDelete: () => void;
}

/** Asks once, in the place of the button. The focus begins at the answer that does nothing. */
function DeleteQuestion({ name, entry, onDelete }: DeleteProps) {
  const keep = useRef<HTMLButtonElement>(null);
  useEffect(() => keep.current?.focus(), []);
  return (
    <span class="row-actions" role="group" aria-label={`Delete ${name}?`}>
      <span class="question">Delete?</span>
      <button
        ref={keep}
        type="button"
        class="small"
        onClick={() => {
          entry.isAsking.value = false;
        }}
      >
        Keep
      </button>
      <button type="button" class="small danger" onClick={onDelete}>
        Delete
      </button>
    </span>
  );
}

export function DeleteButton(props: DeleteProps) {
  const { name, entry } = props;
  const action = entry.action.value;
  if (action?.problem !== undefined) return <ActionProblem class="problem" action={entry.action} />;
  if (action !== undefined)
    return (
      <span class="pending" role="status">
        {action.label}…
      </span>
    );
  if (entry.isAsking.value) return <DeleteQuestion {...props} />;
  return (
    <button
      type="button"
      class="small"
      aria-label={`Delete ${name}`}
      onClick={() => {
        entry.isAsking.value = true;
      }}
    >
      Delete
    </button>
  );
}
