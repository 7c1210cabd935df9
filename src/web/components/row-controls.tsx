import { type Signal, useSignal } from '@preact/signals';
import type { Row } from '../row.ts';
import { useEffect, useRef } from 'preact/hooks';
import { remove, interrupt, pause, resume, rename } from '../actions.ts';
import { titleOf } from '../../sentences/facts.ts';
import { offersOf, type Offer } from '../offers.ts';
import { usePage } from '../page-state.ts';
import { Dialog } from './dialog.tsx';
import { Icon } from './icon.tsx';
import { Part } from './part-of-page.tsx';

interface MenuItem {
  readonly label: string;
  readonly isDanger?: true;
  readonly act: () => void;
}

interface RowMenuProps {
  readonly title: string;
  readonly items: readonly MenuItem[];
}

/** A button that opens a menu. Escape or the loss of the focus closes the menu. */
function RowMenu({ title, items }: RowMenuProps) {
  const isOpen = useSignal(false);
  const button = useRef<HTMLButtonElement>(null);
  const choose = (act: () => void) => () => {
    isOpen.value = false;
    act();
  };
  return (
    <span
      class="menu"
      onFocusOut={(event) => {
        const next = event.relatedTarget;
        if (!(next instanceof Node && event.currentTarget.contains(next))) isOpen.value = false;
      }}
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || !isOpen.peek()) return;
        event.preventDefault();
        isOpen.value = false;
        button.current?.focus();
      }}
    >
      <button
        ref={button}
        type="button"
        class="small quiet"
        aria-expanded={isOpen.value}
        aria-label={`More for ${title}`}
        onClick={() => (isOpen.value = !isOpen.value)}
      >
        <Icon name="more" />
      </button>
      {isOpen.value && (
        <span class="menu-items">
          {items.map(({ label, isDanger = false, act }) => (
            <button
              key={label}
              type="button"
              class={isDanger ? 'danger' : ''}
              onClick={choose(act)}
            >
              {label}
            </button>
          ))}
        </span>
      )}
    </span>
  );
}

interface RowActionsProps {
  readonly row: Row;
  readonly mode: Signal<RowMode>;
}

/** Buttons of a row. During an action, the first button stays in the page and keeps the focus. */
function RowActions({ row, mode }: RowActionsProps) {
  const { may } = usePage();
  const facts = row.current.value;
  const title = titleOf(facts);
  const action = row.action.value;
  const pending =
    action !== undefined && action.problem === undefined ? `${action.label}…` : undefined;
  const startAgain = () => location.assign(`/?again=${facts.task?.id ?? ''}`);
  const act = ({ name, progress }: Offer) => {
    if (name === 'pause') void pause(row, progress);
    else if (name === 'interrupt') void interrupt(row, progress);
    else if (name === 'resume') void resume(row, progress);
    else if (name === 'answer') location.assign(`/c/${row.id}#question`);
    else startAgain();
  };
  const [first, ...others] = offersOf(facts).filter(({ scope }) => may(scope));
  const choose = (chosen: RowMode) => () => (mode.value = chosen);
  const items: readonly MenuItem[] = [
    ...(may('start') && facts.task !== undefined
      ? [{ label: 'Start another like it…', act: startAgain }]
      : []),
    ...(may('manage')
      ? [
          { label: 'Rename', act: choose('rename') },
          { label: 'Share…', act: choose('share') },
          { label: 'Hand over…', act: choose('hand-over') },
          { label: 'Delete…', isDanger: true as const, act: choose('delete') },
        ]
      : []),
  ];
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
      {facts.conversation !== undefined && items.length > 0 && (
        <RowMenu title={title} items={items} />
      )}
    </span>
  );
}

/** The question replaces the buttons of the row. At first, the button Keep has the focus. */
function DeleteQuestion({ row, onEnd }: { readonly row: Row; readonly onEnd: () => void }) {
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

/** The form that replaces the title (`rename`) or the buttons (`delete`), or an open dialog. */
export type RowMode = 'rename' | 'delete' | 'share' | 'hand-over' | undefined;

interface RowControlsProps {
  readonly row: Row;
  readonly mode: Signal<RowMode>;
  readonly onEnd: () => void;
}

export const RowControls = ({ row, mode, onEnd }: RowControlsProps) =>
  mode.value === 'delete' ? (
    <DeleteQuestion row={row} onEnd={onEnd} />
  ) : (
    <>
      <RowActions row={row} mode={mode} />
      {mode.value === 'hand-over' && (
        <Dialog title={`Hand over “${titleOf(row.current.value)}”`} onClose={onEnd}>
          <Part name="handover">{({ HandOver }) => <HandOver row={row} />}</Part>
        </Dialog>
      )}
      {mode.value === 'share' && (
        <Dialog title={`Share “${titleOf(row.current.value)}”`} onClose={onEnd}>
          <Part name="share">{({ Shares }) => <Shares row={row} />}</Part>
        </Dialog>
      )}
    </>
  );

interface RenameFormProps {
  readonly row: Row;
  /** Called on Enter and Escape. */
  readonly onEnd: () => void;
  /** Called when the field loses the focus. */
  readonly onLeave: () => void;
}

/** The title of a row as a field. Enter saves it; Escape and the loss of the focus do not. */
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
