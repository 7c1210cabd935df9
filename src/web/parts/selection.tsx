import { useComputed, useSignal, useSignalEffect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import {
  fittingRows,
  manyActions,
  outcomeOf,
  performMany,
  questionFor,
  type ManyQuestion,
} from '../many.ts';
import { pause, remove, resume, startAgain } from '../actions.ts';
import { usePage } from '../page-state.ts';
import type { Row } from '../row.ts';
import { manyKeys, type ManyAction } from '../selection.ts';

const acts: Readonly<Record<ManyAction, (row: Row, progress: string) => Promise<boolean>>> = {
  pause,
  resume,
  retry: startAgain,
  delete: remove,
};

interface QuestionProps {
  readonly question: ManyQuestion;
  readonly onConfirm: () => void;
  readonly onCancel: () => void;
}

/** Asks one question for all selected conversations. At first, Cancel has the focus. */
function ManyQuestionForm({ question, onConfirm, onCancel }: QuestionProps) {
  const { action, text } = question;
  const cancel = useRef<HTMLButtonElement>(null);
  useEffect(() => cancel.current?.focus(), [question]);
  return (
    <div
      class="selection-question"
      role="group"
      aria-labelledby="selection-question"
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return;
        event.preventDefault();
        onCancel();
      }}
    >
      <p id="selection-question">{text}</p>
      <button ref={cancel} type="button" aria-describedby="selection-question" onClick={onCancel}>
        Cancel
      </button>
      <button
        type="button"
        class={action === 'delete' ? 'danger' : 'primary'}
        aria-describedby="selection-question"
        onClick={onConfirm}
      >
        {manyActions[action].label} {question.groupsOf.size}
      </button>
    </div>
  );
}

/** The number of selected conversations, and the actions that apply to at least one of them. */
export function SelectionBar() {
  const page = usePage();
  const { selection } = page;
  const question = useSignal<ManyQuestion | undefined>(undefined);
  const progress = useSignal<string | undefined>(undefined);
  const rows = page.selected.value;
  const shown = page.lists.value.flatMap((list) => list.rows);
  const isShown = new Set(shown);
  const hidden = rows.filter((row) => !isShown.has(row)).length;
  const isAllSelected = shown.every(({ id }) => selection.ids.value.has(id));
  useSignalEffect(() => {
    const action = selection.wanted.value;
    if (action === undefined) return;
    selection.wanted.value = undefined;
    const fitting = fittingRows(action, page.selected.peek());
    if (!page.may(manyActions[action].scope)) return;
    if (fitting.length === 0 || progress.peek() !== undefined) return;
    const isShownNow = new Set(page.lists.peek().flatMap((list) => list.rows));
    question.value = questionFor(action, fitting, page.store.rows.values(), (row) =>
      isShownNow.has(row),
    );
  });
  const end = () => {
    question.value = undefined;
    document.getElementById(`row-${page.active.peek() ?? ''}`)?.focus();
  };
  const confirm = async (confirmed: ManyQuestion) => {
    end();
    selection.outcome.value = '';
    const { action, groupsOf } = confirmed;
    const show = (answered: number) => {
      progress.value = `${manyActions[action].progress}: ${answered} of ${groupsOf.size}`;
    };
    show(0);
    const outcome = await performMany(confirmed, {
      act: (row) => acts[action](row, manyActions[action].progress),
      isThere: (row) => page.store.rows.get(row.id) === row,
      onAnswer: show,
    });
    progress.value = undefined;
    selection.outcome.value = outcomeOf(action, outcome);
    // While the focus is in the list, its rows stay in place. Therefore the list loses the focus.
    const { activeElement: focused } = document;
    if (focused instanceof HTMLElement && focused.closest('.list') !== null) focused.blur();
    page.store.index.flush();
    selection.remove(outcome.done.map(({ id }) => id));
  };
  const { value: asked } = question;
  if (asked !== undefined)
    return (
      <ManyQuestionForm question={asked} onConfirm={() => void confirm(asked)} onCancel={end} />
    );
  return (
    <>
      <span class="selection-count">
        <b>{rows.length} selected</b>
        {hidden > 0 && <span>, {hidden} not shown by the filter</span>}
      </span>
      {selection.outcome.value !== '' && (
        <span class="quiet-text" aria-hidden="true">
          {selection.outcome}
        </span>
      )}
      {!isAllSelected && (
        <button type="button" class="quiet" onClick={() => page.selectShown()}>
          Select all {shown.length} shown
        </button>
      )}
      <button type="button" class="quiet" onClick={() => selection.clear()}>
        Select none
      </button>
      <span class="selection-actions">
        {progress.value === undefined ? (
          Object.entries(manyKeys).map(([key, action]) => (
            <ActionButton key={key} shortcut={key} action={action} />
          ))
        ) : (
          <span class="pending" role="status">
            {progress}
          </span>
        )}
      </span>
    </>
  );
}

interface ActionButtonProps {
  readonly action: ManyAction;
  readonly shortcut: string;
}

/** A button with the number of rows to which the action applies; no button if that number is 0. */
function ActionButton({ action, shortcut }: ActionButtonProps) {
  const page = usePage();
  const all = page.selected.value.length;
  const count = useComputed(() => fittingRows(action, page.selected.value).length).value;
  if (count === 0 || !page.may(manyActions[action].scope)) return null;
  return (
    <button
      type="button"
      class={action === 'delete' ? 'danger' : ''}
      aria-keyshortcuts={shortcut}
      onClick={() => (page.selection.wanted.value = action)}
    >
      {manyActions[action].label} {count === all ? all : `${count} of ${all}`}
      <kbd aria-hidden="true">{shortcut}</kbd>
    </button>
  );
}
