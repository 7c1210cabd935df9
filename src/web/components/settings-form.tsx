import { useSignal, type Signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { messageOf } from '../api.ts';
import { usePage } from '../page-state.ts';

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
  /** Scope without which the gateway refuses the form. */
  readonly scope: 'manage' | 'secrets';
  /** Whether the form only adds something: without the scope, the page does not show it. */
  readonly isAddition?: true;
  /** Sends the fields. Rejects with an ApiError if the gateway refuses them. */
  readonly send: () => Promise<void>;
  /** Content between the title and the fields. */
  readonly before?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function SettingsForm(props: SettingsFormProps) {
  const { id, title, text, scope, isAddition = false, before } = props;
  const lack = usePage().lackOf(scope);
  return (
    <section class="panel" id={id} aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>{title}</h2>
      <p class="quiet-text">{text}</p>
      {before}
      {(lack === undefined || !isAddition) && <Form {...props} lack={lack} />}
      {lack !== undefined && <p class="quiet-text">{lack}</p>}
    </section>
  );
}

interface FormProps extends SettingsFormProps {
  /** Why the form can only be read; undefined if the session may send it. */
  readonly lack: string | undefined;
}

function Form({ button, scope, send, children, lack }: FormProps) {
  const { may } = usePage();
  const state = useSignal<'sending' | 'saved' | { readonly problem: string } | undefined>(
    undefined,
  );
  const submit = async () => {
    if (state.peek() === 'sending' || !may(scope)) return;
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
      <fieldset class="fields" disabled={lack !== undefined}>
        {children}
      </fieldset>
      {lack === undefined && (
        <div class="submit">
          <button type="submit" class="primary" aria-disabled={value === 'sending' || !may(scope)}>
            {value === 'sending' ? 'Saving…' : button}
          </button>
          <span role="status">{value === 'saved' ? 'Saved.' : ''}</span>
          {typeof value === 'object' && (
            <p class="problem" role="alert">
              {value.problem}
            </p>
          )}
        </div>
      )}
    </form>
  );
}
