interface RetryProblemProps {
  readonly text: string;
  readonly onRetry: () => void;
}

/** Why something could not be read, with a way to try again. */
export const RetryProblem = ({ text, onRetry }: RetryProblemProps) => (
  <p class="problem" role="alert">
    {text}{' '}
    <button type="button" class="link" onClick={onRetry}>
      Try again
    </button>
  </p>
);
