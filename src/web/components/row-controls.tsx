import type { Signal } from '@preact/signals';
import type { Row } from '../row.ts';
import { DeleteQuestion } from './delete-question.tsx';
import { RowActions } from './row-actions.tsx';

/** The form that has the place of the title or of the buttons; undefined: none. */
export type RowMode = 'rename' | 'delete' | undefined;

interface RowControlsProps {
  readonly row: Row;
  readonly mode: Signal<RowMode>;
  readonly onEnd: () => void;
}

/** The buttons of a conversation, or the question that has their place. */
export const RowControls = ({ row, mode, onEnd }: RowControlsProps) =>
  mode.value === 'delete' ? (
    <DeleteQuestion row={row} onEnd={onEnd} />
  ) : (
    <RowActions
      row={row}
      onRename={() => {
        mode.value = 'rename';
      }}
      onDelete={() => {
        mode.value = 'delete';
      }}
    />
  );
