import { InOrder } from './in-order.tsx';
import type { History } from '../history.ts';
import type { Live } from '../live.ts';
import { lastRunMsOf, type PlanStep } from '../plan.ts';
import { duration } from '../times.ts';
import type { ConversationRecord } from '../wire.ts';

const stepStates = {
  done: 'Done',
  doing: 'In progress',
  open: 'Open',
} as const satisfies Readonly<Record<PlanStep['state'], string>>;

interface RunFactsProps {
  readonly history: History;
  readonly live: Live;
}

/** The plan of the agent, with the state of each step. */
export function PlanList({ history, live }: RunFactsProps) {
  const { steps, more } = history.plan.value;
  if (steps.length === 0) return null;
  const done = steps.filter(({ state }) => state === 'done').length;
  return (
    <details class="tool plan" open={live.runMs.value !== null}>
      <summary>
        <b>Plan</b>
        <span class="tool-state">
          {done} of {steps.length + more} done
        </span>
      </summary>
      <ol>
        {steps.map(({ text, state }, index) => (
          <li key={index} class={`step-${state}`}>
            <InOrder>{text}</InOrder> <span class="tool-state">{stepStates[state]}</span>
          </li>
        ))}
      </ol>
      {more > 0 && <p class="quiet-text">{more} more steps are not shown.</p>}
    </details>
  );
}

interface UsageProps extends RunFactsProps {
  readonly metrics: ConversationRecord['metrics'] | undefined;
}

/** The time of the run, and what it has used as far as the agent reports that. */
export function Usage({ history, live, metrics }: UsageProps) {
  const runMs = live.runMs.value;
  const lastMs = runMs ?? lastRunMsOf(history.events.value);
  const { prompt_tokens: read = 0, completion_tokens: written = 0 } =
    metrics?.accumulated_token_usage ?? {};
  const cost = metrics?.accumulated_cost ?? 0;
  const parts = [
    lastMs !== undefined && `${runMs === null ? 'Last run:' : 'Running for'} ${duration(lastMs)}`,
    read + written > 0 &&
      `${read.toLocaleString('en-US')} tokens in, ${written.toLocaleString('en-US')} out`,
    cost > 0 && `$${cost.toFixed(2)}`,
  ].filter((part) => part !== false);
  return parts.length === 0 ? null : <p class="quiet-text">{parts.join(' · ')}</p>;
}
