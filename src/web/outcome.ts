/** The answer of the service to an answer. */
export interface Stored {
  /** recorded: the agent has not got it yet. */
  readonly state: 'recorded' | 'delivered';
  /** What the answer does where the agent has forgotten its question. */
  readonly notice: string | null;
}

/** Pure. What has become of an answer, and what happens next. */
export function outcomeOf({ state, notice }: Stored, isRunning: boolean): string {
  if (state === 'delivered') return 'The agent has your answer.';
  const next = isRunning
    ? 'The agent gets it in a moment.'
    : 'The sandbox resumes and the agent gets it.';
  return `Stored. ${notice ?? next}`;
}
