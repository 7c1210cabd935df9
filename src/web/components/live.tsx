import { InOrder } from './text-block.tsx';
import type { History } from '../history.ts';
import type { Live } from '../live.ts';
import { lastRunMsOf, type PlanStep } from '../../sentences/entries.ts';
import { duration } from '../../sentences/durations.ts';
import type { ConversationRecord } from '../wire.ts';
import { useSignal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { plainOf } from '../live-texts.ts';
import { Markdown } from './markdown.tsx';

const stepStates = { done: 'Done', doing: 'In progress', open: 'Open' } as const satisfies Readonly<
  Record<PlanStep['state'], string>
>;

interface RunFactsProps {
  readonly history: History;
  readonly live: Live;
}

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

/** The duration of the run, and its tokens and cost if the agent reports them. */
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

/** Distance from the end, in pixels, within which the frame counts as being at its end. */
const endDistance = 24;

interface LiveOutputProps {
  readonly label: string;
  /** If undefined, the shown text stays. */
  readonly text: string | undefined;
}

/**
 * The output of a running command, or of a command that has ended while the page was open. The
 * frame follows the end of the text. While a user reads above the end, the text does not change.
 */
export function LiveOutput({ label, text }: LiveOutputProps) {
  const frame = useRef<HTMLPreElement>(null);
  const follows = useSignal(true);
  const shown = useRef('');
  if (follows.value && text !== undefined) shown.current = text;
  useLayoutEffect(() => {
    const { current } = frame;
    if (current !== null && follows.value) current.scrollTop = current.scrollHeight;
  });
  return (
    <>
      <pre
        ref={frame}
        role="group"
        tabIndex={0}
        aria-label={label}
        onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
          follows.value = scrollTop + clientHeight >= scrollHeight - endDistance;
        }}
      >
        {shown.current}
      </pre>
      {!follows.value && (
        <button type="button" class="small" onClick={() => (follows.value = true)}>
          Follow
        </button>
      )}
    </>
  );
}

/** Maximum characters of a text that is rendered as Markdown while it grows. */
const maxRendered = 2_000;

const WrittenText = ({ text }: { readonly text: string }) =>
  text.length > maxRendered ? <p class="written">{text}</p> : <Markdown text={text} />;

/** The text that the agent is writing. The event with the whole text replaces it. */
export function Written({ live }: { readonly live: Live }) {
  return (
    <>
      {live.written.map((item) =>
        item.kind === 'thought' ? (
          <details key={item.id} class="tool" open>
            <summary>
              <span class="quiet-text">Thinking…</span>
            </summary>
            <LiveOutput label="Thought" text={plainOf(item)} />
          </details>
        ) : (
          <article key={item.id} class="message message-agent">
            <h3>
              Agent <span class="entry-time">is writing…</span>
            </h3>
            <WrittenText text={plainOf(item)} />
          </article>
        ),
      )}
    </>
  );
}
