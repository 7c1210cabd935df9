import type { Signal } from '@preact/signals';
import type { ActionState } from '../row.ts';
import type { ComponentChildren } from 'preact';

interface SkeletonProps {
  readonly lines: number;
  /** The text for screen readers. */
  readonly children: ComponentChildren;
}

export const Skeleton = ({ lines, children }: SkeletonProps) => (
  <div class="skeleton">
    <span class="unseen">{children}</span>
    {Array.from({ length: lines }, (_, index) => (
      <span key={index} class="skeleton-line" />
    ))}
  </div>
);

interface RetryProblemProps {
  readonly text: string;
  readonly onRetry: () => void;
}

export const RetryProblem = ({ text, onRetry }: RetryProblemProps) => (
  <p class="problem" role="alert">
    {text}{' '}
    <button type="button" class="link" onClick={onRetry}>
      Try again
    </button>
  </p>
);

interface ActionProblemProps {
  readonly class: string;
  readonly action: Signal<ActionState | undefined>;
}

/** The reason why the gateway has refused an action, with buttons to retry and to dismiss it. */
export function ActionProblem({ class: name, action }: ActionProblemProps) {
  const { problem, retry } = action.value ?? {};
  if (problem === undefined) return null;
  return (
    <span class={name} role="alert">
      {problem}{' '}
      <button type="button" class="link" onClick={retry}>
        Try again
      </button>{' '}
      <button type="button" class="link" onClick={() => (action.value = undefined)}>
        Dismiss
      </button>
    </span>
  );
}
