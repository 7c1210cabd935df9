import { useSignal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Live } from '../live.ts';
import { plainOf } from '../live-texts.ts';
import { Markdown } from './markdown.tsx';

/** From here on a text counts as at its end, in pixels. */
const endDistance = 24;

interface LiveOutputProps {
  readonly label: string;
  /** Undefined: the text stays as it is. */
  readonly text: string | undefined;
}

/**
 * The output of a command that runs, and of one that has run in this page. The frame follows its
 * end; while a person reads above the end, nothing moves.
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

/** Characters of a text that is rendered anew with each answer; a longer one is plain meanwhile. */
const maxRendered = 2_000;

const WrittenText = ({ text }: { readonly text: string }) =>
  text.length > maxRendered ? <p class="written">{text}</p> : <Markdown text={text} />;

/** The text that the agent writes now; the event with the whole text takes its place. */
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
