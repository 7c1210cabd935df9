import { useSignal, signal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import {
  closestPlace,
  wordsPattern,
  type Surroundings,
  hitIn,
  patternOf,
  type Hit,
} from '../hit.ts';
import type { History } from '../history.ts';
import { RetryProblem } from '../components/loading.tsx';
import { messageOf } from '../api.ts';

export { surroundingsIn } from '../hit.ts';

const maxHits = 1_000;
const pageSize = 100;

/** Searches all events for a text, oldest first. Keeps the hits, and only one page of events. */
class EventSearch {
  readonly hits = signal<readonly Hit[]>([]);
  readonly searched = signal(0);
  /** Number of all events; undefined if unknown. */
  readonly total = signal<number | undefined>(undefined);
  /** `stopped`: the user has stopped the search, or a request has failed. */
  readonly state = signal<'running' | 'stopped' | 'done'>('running');
  readonly problem = signal<string | undefined>(undefined);
  readonly text: string;
  readonly #history: History;
  readonly #pattern: RegExp;
  #aborter = new AbortController();
  /** The `page_id` of the next page; undefined for the first page, null after the last page. */
  #next: string | null | undefined;

  constructor(history: History, text: string) {
    this.#history = history;
    this.text = text;
    this.#pattern = patternOf(text);
    void this.#count();
    void this.resume();
  }

  /** Stops the search. Its hits stay. */
  stop(): void {
    this.#aborter.abort();
    if (this.state.peek() === 'running') this.state.value = 'stopped';
  }

  async resume(): Promise<void> {
    const aborter = new AbortController();
    this.#aborter = aborter;
    this.state.value = 'running';
    this.problem.value = undefined;
    try {
      while (this.#next !== null && this.hits.peek().length < maxHits) {
        const { signal: stopped } = aborter;
        const options = { order: 'oldest first', limit: pageSize, signal: stopped } as const;
        const { items, next_page_id: next } = await this.#history.page(this.#next, options);
        if (stopped.aborted) return;
        const found = items.flatMap((event) => hitIn(event, this.#pattern) ?? []);
        if (found.length > 0) this.hits.value = [...this.hits.peek(), ...found].slice(0, maxHits);
        this.searched.value += items.length;
        this.#next = next;
      }
      this.state.value = 'done';
    } catch (error) {
      if (aborter.signal.aborted) return;
      this.state.value = 'stopped';
      this.problem.value = messageOf(error);
    }
  }

  async #count(): Promise<void> {
    this.total.value = await this.#history.count().catch(() => undefined);
  }
}

const numberOf = (count: number): string => count.toLocaleString('en');

/** Waits until the entry is rendered, marks all matches in it, and scrolls to the one at `near`. */
export function highlight(text: string, near: Surroundings): void {
  requestAnimationFrame(() => requestAnimationFrame(() => markIn(text, near)));
}

/** Maximum characters that are compared before and after a match. */
const maxAround = 80;

function markIn(text: string, near: Surroundings): void {
  const entry = document.querySelector<HTMLElement>('.history > [data-marked]');
  // Firefox before 140 has no CSS highlights.
  if (entry === null || !('highlights' in CSS)) return;
  const ranges: Range[] = [];
  const places: Surroundings[] = [];
  const walker = document.createTreeWalker(entry, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const value = node.nodeValue ?? '';
    for (const { index, 0: match } of value.matchAll(wordsPattern(text, 'g'))) {
      const end = index + match.length;
      const range = new Range();
      range.setStart(node, index);
      range.setEnd(node, end);
      ranges.push(range);
      places.push({
        before: value.slice(Math.max(0, index - maxAround), index),
        after: value.slice(end, end + maxAround),
      });
    }
  }
  CSS.highlights.set('found', new Highlight(...ranges));
  const range = ranges[closestPlace(near, places)];
  if (range === undefined) return;
  const frame = range.startContainer.parentElement?.closest('pre');
  const offset = (top: number) => range.getBoundingClientRect().top - top;
  if (frame) frame.scrollTop += offset(frame.getBoundingClientRect().top) - frame.clientHeight / 2;
  const fromMiddle = offset(innerHeight / 2);
  if (Math.abs(fromMiddle) > innerHeight / 2 || fromMiddle > 0) scrollBy({ top: fromMiddle });
}

interface FindProps {
  readonly history: History;
  readonly onClose: () => void;
}

export function Find({ history, onClose }: FindProps) {
  const text = useSignal('');
  const search = useSignal<EventSearch | undefined>(undefined);
  /** Index of the hit that is shown; -1 without a hit. */
  const place = useSignal(-1);
  const field = useRef<HTMLInputElement>(null);
  const { value: present } = search;
  const hits = present?.hits.value ?? [];
  const hit = hits[place.value];
  const state = present?.state.value;
  const go = (to: number) => (place.value = (to + hits.length) % hits.length);
  const start = () => {
    if (text.peek().trim() === '') return;
    search.peek()?.stop();
    place.value = -1;
    search.value = new EventSearch(history, text.peek());
  };
  const close = () => {
    onClose();
    // `show` moves the focus to the hit, even if its event is still being read.
    if (hit === undefined) document.getElementById('find-open')?.focus();
    else void history.show(hit.id);
  };
  // In the same frame as the field itself, so that no typed character is lost.
  useLayoutEffect(() => field.current?.focus(), []);
  useEffect(
    () => () => {
      search.peek()?.stop();
      if ('highlights' in CSS) CSS.highlights.delete('found');
    },
    [],
  );
  useEffect(() => {
    if (place.value < 0 && hits.length > 0) place.value = 0;
  }, [hits.length]);
  useEffect(() => {
    if (hit === undefined || present === undefined) return;
    void history.show(hit.id, false).then(() => highlight(present.text, hit));
  }, [hit]);
  const searched = numberOf(present?.searched.value ?? 0);
  const total = Math.max(present?.total.value ?? 0, present?.searched.value ?? 0);
  const where = hits.length === 0 ? '' : `Hit ${place.value + 1} of ${numberOf(hits.length)}`;
  const summary =
    state === 'done'
      ? hits.length === maxHits
        ? `${where}, the first ones in ${searched} events`
        : hits.length === 0
          ? `Not found in ${searched} events`
          : `${where} in ${searched} events`
      : [where, `Searched ${searched} of ${numberOf(total)} events`].filter(Boolean).join(' · ');
  return (
    <form
      class="find"
      role="search"
      aria-label="Find in all events"
      onSubmit={(event) => {
        event.preventDefault();
        if (present?.text === text.peek() && hits.length > 0) go(place.peek() + 1);
        else start();
      }}
      onKeyDown={(event) => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          close();
        } else if (event.key === 'Enter' && event.shiftKey && hits.length > 0) {
          event.preventDefault();
          go(place.peek() - 1);
        }
      }}
    >
      <input
        ref={field}
        id="find"
        type="text"
        aria-label="Text to find in all events"
        placeholder="Find in all events"
        maxLength={500}
        value={text.value}
        onInput={(event) => (text.value = event.currentTarget.value)}
      />
      <span class="find-buttons">
        <button type="submit" class="small">
          {present?.text === text.value && hits.length > 0 ? 'Next' : 'Find'}
        </button>
        <button
          type="button"
          class="small"
          aria-disabled={hits.length === 0}
          onClick={() => hits.length > 0 && go(place.peek() - 1)}
        >
          Previous
        </button>
        {state === 'running' && (
          <button type="button" class="small" onClick={() => present?.stop()}>
            Stop
          </button>
        )}
        {state === 'stopped' && (
          <button type="button" class="small" onClick={() => void present?.resume()}>
            Continue
          </button>
        )}
        <button type="button" class="small quiet" onClick={close}>
          Close
        </button>
      </span>
      {present !== undefined && (
        <p class="find-state">
          {/* Screen readers do not read out the progress of a search. */}
          <span role="status" aria-live={state === 'running' ? 'off' : 'polite'}>
            {summary}
          </span>
          {hit !== undefined && (
            <span>
              {': '}
              {hit.before}
              <mark>{hit.match}</mark>
              {hit.after}
            </span>
          )}
        </p>
      )}
      {hit?.isShown === false && (
        <p class="quiet-text">
          This part of the event is not shown on the page. “Download” has all of it.
        </p>
      )}
      {present?.problem.value !== undefined && (
        <RetryProblem text={present.problem.value} onRetry={() => void present.resume()} />
      )}
    </form>
  );
}
