import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { DraftField } from '../draft.ts';
import { usePage } from '../page-state.ts';

/** Delay before a search, so that a person types several letters for one. */
const delayMs = 200;

interface SuggestedFieldProps {
  readonly name: DraftField;
  readonly label: string;
  readonly placeholder: string;
  /** Values for a text; a rejection shows none. */
  readonly search?: (text: string, signal: AbortSignal) => Promise<readonly string[]>;
}

/** A text field of the start form with values to choose from. */
export function SuggestedField({ name, label, placeholder, search }: SuggestedFieldProps) {
  const { draft } = usePage();
  const field = draft.field(name);
  const values = useSignal<readonly string[]>([]);
  const under = useRef<{ timer?: ReturnType<typeof setTimeout>; abort?: AbortController }>({});
  const stop = () => {
    clearTimeout(under.current.timer);
    under.current.abort?.abort();
  };
  useEffect(() => stop, []);
  const suggest = (wait: number) => {
    stop();
    if (search === undefined) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      search(field.peek().trim(), abort.signal).then(
        (found) => (values.value = found),
        () => (values.value = []),
      );
    }, wait);
    under.current = { timer, abort };
  };
  const problem = draft.fieldProblems.value[name];
  const [list, error] = [`${name}-values`, `${name}-problem`];
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="text"
        name={name}
        {...(search === undefined ? {} : { list })}
        placeholder={placeholder}
        autocomplete="off"
        spellcheck={false}
        value={field.value}
        aria-invalid={problem !== undefined}
        {...(problem === undefined ? {} : { 'aria-describedby': error })}
        onFocus={() => suggest(0)}
        onInput={(event) => {
          field.value = event.currentTarget.value;
          suggest(delayMs);
        }}
      />
      {search !== undefined && (
        <datalist id={list}>
          {values.value.map((value) => (
            <option key={value} value={value} />
          ))}
        </datalist>
      )}
      {problem !== undefined && (
        <span id={error} class="problem">
          {problem}
        </span>
      )}
    </label>
  );
}
