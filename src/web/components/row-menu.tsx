import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { Icon } from './icon.tsx';

interface RowMenuProps {
  readonly title: string;
  readonly onRename: () => void;
  readonly onDelete: () => void;
}

/** A button that shows further ones. They vanish with Escape, and once the focus leaves them. */
export function RowMenu({ title, onRename, onDelete }: RowMenuProps) {
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
        if (event.key !== 'Escape') return;
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
        onClick={() => {
          isOpen.value = !isOpen.value;
        }}
      >
        <Icon name="more" />
      </button>
      {isOpen.value && (
        <span class="menu-items">
          <button type="button" onClick={choose(onRename)}>
            Rename
          </button>
          <button type="button" class="danger" onClick={choose(onDelete)}>
            Delete…
          </button>
        </span>
      )}
    </span>
  );
}
