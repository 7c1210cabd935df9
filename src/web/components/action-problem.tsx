import type { Signal } from '@preact/signals';
import type { ActionState } from '../row.ts';

interface ActionProblemProps {
  readonly class: string;
  readonly action: Signal<ActionState | undefined>;
}

/** Why the service has refused an action, until a person repeats or dismisses it. */
export function ActionProblem({ class: name, action }: ActionProblemProps) {
  const { problem, retry } = action.value ?? {};
  if (problem === undefined) return null;
  return (
    <span class={name} role="alert">
      {problem}{' '}
      <button type="button" class="link" onClick={retry}>
        Try again
      </button>{' '}
      <button
        type="button"
        class="link"
        onClick={() => {
          action.value = undefined;
        }}
      >
        Dismiss
      </button>
    </span>
  );
}
