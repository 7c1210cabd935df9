import { InOrder } from './text-block.tsx';
import type { History } from '../history.ts';
import type { Live } from '../live.ts';
import { lastRunMsOf, type PlanStep } from '../../sentences/entries.ts';
import { duration } from '../../sentences/durations.ts';
import { spendingIn, spendingOf, spendingTexts } from '../money.ts';
import type { ConversationRecord, ConversationUsage } from '../wire.ts';
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
  readonly conversation: ConversationRecord | undefined;
}

/** The usage of each model, the most expensive first. */
function UsageByModel({ usage }: { readonly usage: ConversationUsage }) {
  const models = usage.by_model.toSorted(
    (one, other) => other.cost - one.cost || other.calls - one.calls,
  );
  if (models.length === 0) return null;
  return (
    <details class="tool">
      <summary>
        <b>By model</b>
        <span class="tool-state">
          {models.length} {models.length === 1 ? 'model' : 'models'}
        </span>
      </summary>
      <dl class="by-model">
        {models.map(({ model, ...counters }) => (
          <div key={model}>
            <dt>{model}</dt>
            <dd>{spendingTexts(spendingIn(counters)).join(' · ')}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

/** The duration of the run, and the cost, calls and tokens of the conversation where known. */
export function Usage({ history, live, conversation }: UsageProps) {
  const runMs = live.runMs.value;
  const lastMs = runMs ?? lastRunMsOf(history.events.value);
  const spending = spendingOf(conversation);
  const parts = [
    ...(lastMs === undefined
      ? []
      : [`${runMs === null ? 'Last run:' : 'Running for'} ${duration(lastMs)}`]),
    ...(spending === undefined ? [] : spendingTexts(spending)),
  ];
  return (
    <>
      {parts.length > 0 && <p class="quiet-text">{parts.join(' · ')}</p>}
      {conversation !== undefined && conversation.usage !== null && (
        <UsageByModel usage={conversation.usage} />
      )}
    </>
  );
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
