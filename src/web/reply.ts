import { isFailedStart, sandboxStatusOf, type Facts } from './facts.ts';

/** Whether the agent can get a message, and what the message would do or why there is none. */
export type Reply =
  | { readonly isPossible: true; readonly placeholder: string }
  | { readonly isPossible: false; readonly why: string };

const possible = (placeholder: string): Reply => ({ isPossible: true, placeholder });
const impossible = (why: string): Reply => ({ isPossible: false, why });

/** Pure. Follows what the service accepts at `send-message`. */
export function replyOf(facts: Facts): Reply {
  switch (sandboxStatusOf(facts)) {
    case 'RUNNING':
    case 'STARTING':
      return possible('Write to the agent');
    case 'PAUSED':
      return possible('Write to the agent. A message resumes the conversation.');
    case 'ERROR':
      return isFailedStart(facts)
        ? impossible('The start has failed: no agent takes messages here.')
        : possible('Write to the agent. A message starts its sandbox again.');
    case 'MISSING':
      return impossible(
        'The sandbox with the agent is deleted: you can read this conversation, not continue it.',
      );
  }
}

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
