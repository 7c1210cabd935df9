/** The answer of the service to an answer. */
export interface Stored {
  /** recorded: the agent has not got it yet. */
  readonly state: 'recorded' | 'delivered';
  /** Effect of the answer where the agent has forgotten its question. */
  readonly notice: string | null;
}

/** Pure. The outcome of an answer, and the next step. */
export function outcomeOf({ state, notice }: Stored, isRunning: boolean): string {
  if (state === 'delivered') return 'The agent has your answer.';
  const next = isRunning
    ? 'The agent gets it in a moment.'
    : 'The sandbox resumes and the agent gets it.';
  return `Stored. ${notice ?? next}`;
}
