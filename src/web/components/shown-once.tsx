import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';

interface ShownOnceProps {
  readonly id: string;
  readonly label: string;
  readonly value: string;
}

/** A value that no later response contains, with a button that copies it. */
export function ShownOnce({ id, label, value }: ShownOnceProps) {
  const input = useRef<HTMLInputElement>(null);
  const state = useSignal('');
  const copy = async () => {
    input.current?.select();
    try {
      await navigator.clipboard.writeText(value);
      state.value = 'Copied.';
    } catch {
      // Without TLS, browsers deny the clipboard to a page from another machine.
      state.value = 'Selected: copy it by the keyboard.';
    }
  };
  return (
    <div class="shown-once">
      <label for={id}>{label}</label>
      <input id={id} ref={input} readOnly value={value} />
      <button type="button" class="small" onClick={() => void copy()}>
        Copy
      </button>
      <span role="status">{state}</span>
    </div>
  );
}
