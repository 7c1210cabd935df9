import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { useSignal, useSignalEffect } from '@preact/signals';
import { markdownOf, type Entry, type ToolEntry } from '../../sentences/entries.ts';
import type { History } from '../history.ts';
import type { Live } from '../live.ts';
import { plainOf } from '../live-texts.ts';
import { usePage } from '../page-state.ts';
import { duration } from '../../sentences/durations.ts';
import { InOrder, TextBlock } from './text-block.tsx';
import { partOf } from '../part.ts';
import { LiveOutput, Written, PlanList } from './live.tsx';
import { Markdown } from './markdown.tsx';
import { Part } from './part-of-page.tsx';
import { RetryProblem } from './loading.tsx';

const entryElements = ':is(article, details, .notice)';

/** Distance from the end, in pixels, within which the page counts as being at its end. */
const endDistance = 80;

const toolStates = {
  running: 'Running',
  done: 'Done',
  failed: 'Failed',
  rejected: 'Rejected',
  lost: 'No result',
  apart: 'Result not shown',
} as const satisfies Readonly<Record<ToolEntry['state'], string>>;

/** Agents report local times without a time zone, so the digits are shown unchanged. */
function Time({ time }: Pick<Entry, 'time'>) {
  const [date = '', clock = ''] = time.split('T');
  const shown = clock.slice(0, 5);
  if (!/^\d\d:\d\d$/.test(shown)) return null;
  return (
    <span class="entry-time" title={`${date} ${clock.slice(0, 8)}, the time of the agent`}>
      {shown}
    </span>
  );
}

interface ToolProps extends Pick<HistoryListProps, 'asks' | 'isOver' | 'live'> {
  readonly entry: ToolEntry;
}

function Tool({ entry, asks, isOver, live }: ToolProps) {
  const { tool, summary, input, output, time } = entry;
  const state = isOver && entry.state === 'running' ? 'lost' : entry.state;
  const running = state === 'running' ? live.outputOf(entry.call) : undefined;
  // A tool call whose live output was shown stays open, and shows the result there.
  const wasLive = useRef(false);
  wasLive.current ||= running !== undefined;
  const grown = running ?? (state === 'running' ? undefined : { text: output, skipped: 0 });
  return (
    <details class={`tool tool-${state}`} open={wasLive.current}>
      <summary>
        <b>{tool}</b>{' '}
        <span class="tool-summary">
          <InOrder>{summary}</InOrder>
        </span>
        <span class="tool-state">
          {asks && state === 'running' ? 'Waits for your answer' : toolStates[state]}
          {running !== undefined && ` · ${duration(running.elapsedMs)}`}
        </span>
        <Time time={time} />
      </summary>
      {input !== '' && (
        <TextBlock label={`Input of ${tool}`}>
          <InOrder>{input}</InOrder>
        </TextBlock>
      )}
      {wasLive.current ? (
        <LiveOutput label={`Output of ${tool}`} text={grown && plainOf(grown)} />
      ) : (
        output !== '' && <TextBlock label={`Output of ${tool}`}>{output}</TextBlock>
      )}
    </details>
  );
}

interface OneEntryProps extends Pick<HistoryListProps, 'asks' | 'isOver' | 'live'> {
  readonly entry: Entry;
  readonly isShared: boolean;
}

function OneEntry({ entry, isShared, ...run }: OneEntryProps) {
  if (entry.kind === 'tool') return <Tool entry={entry} {...run} />;
  if (entry.kind === 'folded')
    return (
      <details class="tool">
        <summary>
          <span class="quiet-text">{entry.name}</span>
          <Time time={entry.time} />
        </summary>
        <TextBlock label={entry.name}>{entry.text}</TextBlock>
      </details>
    );
  if (entry.kind === 'notice')
    return <p class={entry.isProblem ? 'notice problem' : 'notice'}>{entry.text}</p>;
  return (
    <article class={`message message-${entry.source}`}>
      <h3>
        {entry.source === 'user' ? (isShared ? 'User' : 'You') : 'Agent'}
        <Time time={entry.time} />
      </h3>
      {entry.text !== '' && <Markdown text={entry.text} />}
      {entry.images.map((url, index) => (
        <img key={index} src={url} alt={`Image ${index + 1} of the message`} />
      ))}
    </article>
  );
}

const distanceToEnd = (): number => document.documentElement.scrollHeight - innerHeight - scrollY;
const toEnd = () => scrollTo({ top: document.documentElement.scrollHeight });

interface HistoryListProps {
  readonly history: History;
  readonly live: Live;
  /** Whether calls without a result wait for a user's answer. */
  readonly asks: boolean;
  /** Whether the sandbox is gone, so that no further result arrives. */
  readonly isOver: boolean;
}

/** Entries in view keep their position when others arrive above or below them. */
export function HistoryList({ history, ...run }: HistoryListProps) {
  const { live } = run;
  const { isShared } = history;
  const { stream } = usePage();
  const entries = history.entries.value;
  const apart = history.excerptEntries.value;
  const { value: older } = history.older;
  const { value: hidden } = history.hidden;
  const { value: loading } = history.loading;
  const { value: target } = history.target;
  const { value: lookup } = history.lookup;
  const list = useRef<HTMLElement>(null);
  /** Whether the browser permitted the last copy; undefined before the first copy. */
  const isCopied = useSignal<boolean | undefined>(undefined);
  const isFinding = useSignal(false);
  const isAway = useSignal(false);
  const last = useRef<{
    readonly first?: string;
    readonly height: number;
    readonly atEnd: boolean;
  }>({ height: 0, atEnd: true });
  // Loads the script of the search early: a key after its shortcut already belongs to its field.
  useEffect(() => {
    if (!isShared) void partOf('find').catch(() => undefined);
  }, []);
  useLayoutEffect(() => {
    const measure = () => {
      isAway.value = distanceToEnd() > endDistance;
      last.current = { ...last.current, atEnd: !isAway.value };
    };
    addEventListener('scroll', measure, { passive: true });
    return () => removeEventListener('scroll', measure);
  }, []);
  useLayoutEffect(() => {
    isCopied.value = undefined;
    const height = document.documentElement.scrollHeight;
    const { first, height: before, atEnd } = last.current;
    const [{ id } = { id: '' }] = [...apart, ...entries];
    const isOlderAbove = first !== undefined && first !== id;
    if (isOlderAbove && !atEnd) scrollBy({ top: height - before });
    else if (atEnd) toEnd();
    isAway.value = distanceToEnd() > endDistance;
    last.current = { first: id, height, atEnd };
  }, [entries, apart]);
  useSignalEffect(() => {
    if (live.texts.value.length === 0) return;
    requestAnimationFrame(() => {
      if (last.current.atEnd) toEnd();
    });
  });
  useLayoutEffect(() => {
    // Each entry has exactly one of these elements.
    const elements = list.current?.querySelectorAll<HTMLElement>(`:scope > ${entryElements}`);
    const place = [...apart, ...entries].findIndex(({ id }) => id === target?.entry);
    const element = elements?.[place];
    if (target === undefined || element === undefined) return;
    hold();
    list.current?.querySelector('[data-marked]')?.removeAttribute('data-marked');
    element.dataset['marked'] = '';
    if (element instanceof HTMLDetailsElement) element.open = true;
    element.scrollIntoView();
    if (target.takesFocus) {
      const stop = element.querySelector('summary') ?? element;
      if (stop === element) stop.tabIndex = -1;
      stop.focus({ preventScroll: true });
    }
    history.target.value = undefined;
  }, [target, apart, entries]);
  /** Keeps the scroll position while further entries arrive, even at the end of the page. */
  const hold = () => {
    last.current = { ...last.current, atEnd: false };
  };
  const gap =
    hidden === undefined
      ? 'Events not shown'
      : `${hidden.toLocaleString('en')} ${hidden === 1 ? 'event' : 'events'} not shown`;
  const copy = async () => {
    const parts = [
      ...(apart.length === 0 ? [] : [`${markdownOf(apart)}\n\n_… ${gap}_\n\n`]),
      markdownOf(entries),
    ];
    try {
      await navigator.clipboard.writeText(parts.join(''));
      isCopied.value = true;
    } catch {
      // Without TLS, browsers deny the clipboard to a page from another machine.
      isCopied.value = false;
    }
  };
  return (
    <section ref={list} class="history" aria-labelledby="history">
      <div class="history-head">
        <h2 id="history">Events</h2>
        {entries.length > 0 && (
          <div class="history-tools">
            {!isShared && (
              <button
                id="find-open"
                type="button"
                class="small quiet"
                onClick={() => {
                  isFinding.value = true;
                  document.getElementById('find')?.focus();
                }}
              >
                Find
              </button>
            )}
            <button type="button" class="small quiet" onClick={() => void copy()}>
              {isCopied.value ? 'Copied' : 'Copy as Markdown'}
            </button>
            {history.absence.value === undefined && history.downloadPath !== undefined && (
              <a class="button small quiet" href={history.downloadPath} download>
                Download
              </a>
            )}
          </div>
        )}
      </div>
      {isCopied.value === false && (
        <p class="quiet-text" role="status">
          The browser does not permit copying.
        </p>
      )}
      {isFinding.value && (
        <Part name="find">
          {({ Find }) => <Find history={history} onClose={() => (isFinding.value = false)} />}
        </Part>
      )}
      {lookup !== undefined &&
        (lookup.retry === undefined ? (
          <p class="quiet-text" role="status">
            {lookup.text}
          </p>
        ) : (
          <RetryProblem text={lookup.text} onRetry={lookup.retry} />
        ))}
      {typeof older === 'string' && (
        <div class="history-start">
          <button
            type="button"
            class="small"
            disabled={loading !== undefined}
            onClick={() => {
              hold();
              void history.loadOlder();
            }}
          >
            {loading === 'older' ? 'Loading…' : 'Older events'}
          </button>
          <button
            type="button"
            class="small"
            disabled={loading !== undefined}
            onClick={() => void history.loadFirst()}
          >
            {loading === 'first' ? 'Loading the first…' : 'Jump to first'}
          </button>
        </div>
      )}
      {apart.map((entry) => (
        <OneEntry key={entry.id} entry={entry} isShared={isShared} {...run} />
      ))}
      {history.excerpt.value !== undefined && (
        <p class="gap">
          … {gap} ·{' '}
          <button
            type="button"
            class="link"
            aria-disabled={loading !== undefined}
            onClick={() => void history.loadNewer()}
          >
            {loading === 'newer' ? 'Loading…' : 'Show'}
          </button>
        </p>
      )}
      {entries.map((entry) => (
        <OneEntry key={entry.id} entry={entry} isShared={isShared} {...run} />
      ))}
      <Written live={live} />
      <PlanList history={history} live={live} />
      {history.absence.value !== undefined && <p class="quiet-text">{history.absence.value}</p>}
      {/* While the stream is disconnected, the header reports it instead of this problem. */}
      {history.problem.value !== undefined && (isShared || stream.state.value.isOpen) && (
        <RetryProblem text={history.problem.value} onRetry={() => void history.refresh()} />
      )}
      {isAway.value && (
        <button type="button" class="small jump" onClick={toEnd}>
          Jump to latest
        </button>
      )}
    </section>
  );
}
