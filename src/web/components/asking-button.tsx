import { ActionProblem } from './loading.tsx';
import type { Signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { ActionState } from '../row.ts';

interface AskingButtonProps {
  /** The label of the button. */
  readonly verb: string;
  /** The subject of the action, for screen readers. */
  readonly subject: string;
  readonly question?: string;
  /** Whether the action destroys something, as by default. */
  readonly isDanger?: boolean;
  readonly action: Signal<ActionState | undefined>;
  readonly isAsking: Signal<boolean>;
  readonly onConfirm: () => void;
}

/** The question replaces the button. At first, the button Keep has the focus. */
function Question(props: AskingButtonProps) {
  const { verb, subject, question, isDanger = true, isAsking, onConfirm } = props;
  const keep = useRef<HTMLButtonElement>(null);
  useEffect(() => keep.current?.focus(), []);
  return (
    <span class="row-actions" role="group" aria-label={`${verb} ${subject}?`}>
      <span class="question">{question ?? `${verb}?`}</span>
      <button ref={keep} type="button" class="small" onClick={() => (isAsking.value = false)}>
        Keep
      </button>
      <button type="button" class={`small ${isDanger ? 'danger' : 'primary'}`} onClick={onConfirm}>
        {verb}
      </button>
    </span>
  );
}

/** A button that asks for confirmation. The state of the action then replaces the button. */
export function AskingButton(props: AskingButtonProps) {
  const { verb, subject, isAsking } = props;
  const action = props.action.value;
  if (action?.problem !== undefined) return <ActionProblem class="problem" action={props.action} />;
  if (action !== undefined)
    return (
      <span class="pending" role="status">
        {action.label}…
      </span>
    );
  if (isAsking.value) return <Question {...props} />;
  return (
    <button
      type="button"
      class="small"
      aria-label={`${verb} ${subject}`}
      onClick={() => (isAsking.value = true)}
    >
      {verb}
    </button>
  );
}
