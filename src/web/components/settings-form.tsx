import { useSignal, type Signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { messageOf } from '../api.ts';

interface FieldProps {
  readonly id: string;
  readonly label: string;
  readonly value: Signal<string>;
  /** Whether the field hides its text on the screen. */
  readonly isSecret?: boolean;
  readonly placeholder?: string;
  readonly required?: boolean;
}

export function Field(props: FieldProps) {
  const { id, label, value, isSecret = false, placeholder, required = false } = props;
  const common = {
    id,
    required,
    value: value.value,
    autocomplete: 'off',
    spellcheck: false,
    ...(placeholder === undefined ? {} : { placeholder }),
    onInput: ({ currentTarget }: { readonly currentTarget: HTMLInputElement }) => {
      value.value = currentTarget.value;
    },
  };
  return (
    <span class="field">
      <label for={id}>{label}</label>
      {isSecret ? <input type="password" {...common} /> : <input type="text" {...common} />}
    </span>
  );
}

interface SettingsFormProps {
  readonly id: string;
  readonly title: string;
  readonly text: string;
  readonly button: string;
  /** Sends the fields. Rejects with an ApiError if the gateway refuses them. */
  readonly send: () => Promise<void>;
  /** Content between the title and the fields. */
  readonly before?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function SettingsForm(props: SettingsFormProps) {
  const { id, title, text, button, send, before, children } = props;
  const state = useSignal<'sending' | 'saved' | { readonly problem: string } | undefined>(
    undefined,
  );
  const submit = async () => {
    if (state.peek() === 'sending') return;
    state.value = 'sending';
    try {
      await send();
      state.value = 'saved';
    } catch (error) {
      state.value = { problem: messageOf(error) };
    }
  };
  const { value } = state;
  return (
    <section class="panel" id={id} aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>{title}</h2>
      <p class="quiet-text">{text}</p>
      {before}
      <form
        class="settings-form"
        onInput={() => {
          if (state.peek() !== 'sending') state.value = undefined;
        }}
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <div class="fields">{children}</div>
        <div class="submit">
          <button type="submit" class="primary" aria-disabled={value === 'sending'}>
            {value === 'sending' ? 'Saving…' : button}
          </button>
          <span role="status">{value === 'saved' ? 'Saved.' : ''}</span>
          {typeof value === 'object' && (
            <p class="problem" role="alert">
              {value.problem}
            </p>
          )}
        </div>
      </form>
    </section>
  );
}
