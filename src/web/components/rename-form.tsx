import { useEffect, useRef } from 'preact/hooks';
import { rename } from '../actions.ts';
import { titleOf } from '../facts.ts';
import type { Row } from '../row.ts';

interface RenameFormProps {
  readonly row: Row;
  /** Called by Enter and Escape. */
  readonly onEnd: () => void;
  /** Called where the focus has gone elsewhere. */
  readonly onLeave: () => void;
}

/** The title of a row as a field. Enter stores it, Escape and leaving it do not. */
export function RenameForm({ row, onEnd, onLeave }: RenameFormProps) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.select(), []);
  return (
    <form
      class="rename"
      onSubmit={(event) => {
        event.preventDefault();
        const title = input.current?.value.trim() ?? '';
        onEnd();
        if (title !== '' && title !== titleOf(row.facts)) void rename(row, title);
      }}
    >
      <input
        ref={input}
        aria-label="Title"
        maxLength={200}
        defaultValue={titleOf(row.facts)}
        onBlur={onLeave}
        onKeyDown={(event) => {
          if (event.key === 'Escape') onEnd();
        }}
      />
    </form>
  );
}
