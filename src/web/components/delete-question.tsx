import { useEffect, useRef } from 'preact/hooks';
import { remove } from '../actions.ts';
import type { Row } from '../row.ts';

/** Asks once, in the place of the row's buttons. The focus begins at the answer that does nothing. */
export function DeleteQuestion({ row, onEnd }: { readonly row: Row; readonly onEnd: () => void }) {
  const keep = useRef<HTMLButtonElement>(null);
  useEffect(() => keep.current?.focus(), []);
  return (
    <span class="row-actions" role="group" aria-label="Delete the conversation and its files?">
      <span class="question">Delete with its files?</span>
      <button ref={keep} type="button" class="small" onClick={onEnd}>
        Keep
      </button>
      <button
        type="button"
        class="small danger"
        onClick={() => {
          onEnd();
          void remove(row);
        }}
      >
        Delete
      </button>
    </span>
  );
}
