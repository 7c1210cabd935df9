import { useSignal, type Signal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Commented } from '../comment-text.ts';
import type { DiffRow } from '../line-diff.ts';

interface LineCommentProps {
  readonly path: string;
  readonly line: DiffRow;
  /** The text so far, which stays while the comment moves to another line. */
  readonly text: Signal<string>;
  /** Moves the comment to a line of the new version; false where it is not shown. */
  readonly onGo: (line: number) => boolean;
  readonly onAdd: (comment: Commented) => void;
  readonly onClose: () => void;
}

/** A form below a line, whose text becomes a part of the next message to the agent. */
export function LineComment({ path, line, text, onGo, onAdd, onClose }: LineCommentProps) {
  const isAbsent = useSignal(false);
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  const add = () => {
    if (text.value.trim() === '') return;
    onAdd({ path, line, text: text.value.trim() });
    text.value = '';
    onClose();
  };
  return (
    <form
      class="line-comment"
      onSubmit={(event) => {
        event.preventDefault();
        add();
      }}
      onKeyDown={(event) => {
        if (event.key === 'Escape') onClose();
        else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) add();
      }}
    >
      {line.new === undefined ? (
        <span class="quiet-text">Line {line.old}, which was removed</span>
      ) : (
        <label>
          Line{' '}
          <input
            type="number"
            min={1}
            value={line.new}
            onChange={(event) => {
              isAbsent.value = !onGo(event.currentTarget.valueAsNumber);
            }}
          />
        </label>
      )}
      {isAbsent.value && (
        <span class="problem" role="alert">
          This line is not shown.
        </span>
      )}
      <textarea
        ref={field}
        aria-label={`Comment on ${path}`}
        rows={2}
        value={text.value}
        onInput={(event) => {
          text.value = event.currentTarget.value;
        }}
      />
      <button type="submit" class="small primary" aria-disabled={text.value.trim() === ''}>
        Add to the message
      </button>
      <button type="button" class="small quiet" onClick={onClose}>
        Cancel
      </button>
    </form>
  );
}
