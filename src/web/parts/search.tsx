import { useEffect, useMemo } from 'preact/hooks';
import { wordsPattern } from '../hit.ts';
import type { Found, TextSearchPage } from '../wire.ts';
import { InOrder } from '../components/text-block.tsx';
import { RetryProblem } from '../components/loading.tsx';
import { signal } from '@preact/signals';
import { api, messageOf } from '../api.ts';

/** Number of results that one step of the search reads. A button starts the next step. */
const itemsPerStep = 50;

/** The search for one text in the owner's conversations, newest first, page by page. */
class TextSearch {
  readonly items = signal<readonly Found[]>([]);
  readonly searched = signal<TextSearchPage['searched'] | undefined>(undefined);
  /** Number of conversations of which not all events were searched. */
  readonly incomplete = signal(0);
  readonly state = signal<'searching' | 'stopped' | 'over'>('stopped');
  readonly problem = signal<string | undefined>(undefined);
  readonly #text: string;
  #next: string | undefined;
  #reading = new AbortController();

  constructor(text: string) {
    this.#text = text;
  }

  /** Searches until there are `itemsPerStep` more results, or nothing is left. Never rejects. */
  async continue(): Promise<void> {
    this.#reading.abort();
    const { signal: left } = (this.#reading = new AbortController());
    const enough = this.items.peek().length + itemsPerStep;
    this.state.value = 'searching';
    this.problem.value = undefined;
    try {
      while (this.items.peek().length < enough) {
        const query = { q: this.#text, limit: itemsPerStep, page_id: this.#next };
        const page = await api.get<TextSearchPage>('/api/v1/search', query, left);
        left.throwIfAborted();
        this.items.value = [...this.items.peek(), ...page.items];
        this.searched.value = page.searched;
        this.incomplete.value += page.searched.incomplete;
        this.#next = page.next_page_id ?? undefined;
        if (this.#next === undefined) {
          this.state.value = 'over';
          return;
        }
      }
    } catch (error) {
      if (left.aborted) return;
      this.problem.value = messageOf(error);
    }
    this.state.value = 'stopped';
  }

  stop(): void {
    this.#reading.abort();
    if (this.state.peek() === 'searching') this.state.value = 'stopped';
  }
}

interface MarkedProps {
  /** Matches the text in a capturing group. */
  readonly pattern: RegExp;
  readonly snippet: string;
}

function Marked({ pattern, snippet }: MarkedProps) {
  const parts = snippet.split(pattern);
  return (
    <>
      {parts.map((part, index) =>
        index % 2 === 1 ? (
          <mark key={index}>{part}</mark>
        ) : (
          part !== '' && <InOrder key={index}>{part}</InOrder>
        ),
      )}
    </>
  );
}

const places = {
  title: 'Title',
  repository: 'Repository',
  branch: 'Branch',
  pull_request: 'Pull request',
} as const satisfies Readonly<Record<Exclude<Found['where'], 'event'>, string>>;

interface ResultProps extends Pick<MarkedProps, 'pattern'> {
  readonly found: Found;
  readonly text: string;
}

function Result({ found, text, pattern }: ResultProps) {
  const { conversation_id: id, event_id: event, where, timestamp, snippet } = found;
  const query =
    event === null ? '' : `?${new URLSearchParams({ event, find: text, near: snippet })}`;
  return (
    <li>
      <a href={`/c/${encodeURIComponent(id)}${query}`}>
        <span class="quiet-text">
          {where === 'event' ? (timestamp ?? '').slice(0, 16).replace('T', ' ') : places[where]}
        </span>{' '}
        <Marked pattern={pattern} snippet={snippet} />
      </a>
    </li>
  );
}

/** The results by conversation, in the order of the first result of each. */
function groupsOf(items: readonly Found[]): readonly (readonly Found[])[] {
  const groups = new Map<string, Found[]>();
  for (const found of items) {
    const group = groups.get(found.conversation_id);
    if (group === undefined) groups.set(found.conversation_id, [found]);
    else group.push(found);
  }
  return [...groups.values()];
}

interface SearchResultsProps {
  readonly text: string;
  readonly onClose: () => void;
}

export function SearchResults({ text, onClose }: SearchResultsProps) {
  const search = useMemo(() => new TextSearch(text), [text]);
  const pattern = useMemo(() => new RegExp(`(${wordsPattern(text).source})`, 'iu'), [text]);
  useEffect(() => {
    void search.continue();
    return () => search.stop();
  }, [search]);
  const items = search.items.value;
  const searched = search.searched.value;
  const state = search.state.value;
  const incomplete = search.incomplete.value;
  const number = (value: number) => value.toLocaleString('en-US');
  return (
    <section class="search-results" aria-labelledby="search-title">
      <div class="history-head">
        <h2 id="search-title">
          “<InOrder>{text}</InOrder>” in what was said and done
        </h2>
        <span class="row-actions">
          {state === 'searching' && (
            <button type="button" class="small" onClick={() => search.stop()}>
              Stop
            </button>
          )}
          <button type="button" class="small quiet" onClick={onClose}>
            Close
          </button>
        </span>
      </div>
      {groupsOf(items).map((group) => (
        <div key={group[0]?.conversation_id} class="search-group">
          <h3>
            <InOrder>{group[0]?.title ?? ''}</InOrder>
          </h3>
          <ul role="list">
            {group.map((found, index) => (
              <Result
                key={`${found.event_id ?? found.where} ${index}`}
                found={found}
                text={text}
                pattern={pattern}
              />
            ))}
          </ul>
        </div>
      ))}
      {search.problem.value !== undefined && (
        <RetryProblem text={search.problem.value} onRetry={() => void search.continue()} />
      )}
      <p class="quiet-text" role="status">
        {searched === undefined
          ? 'Searching…'
          : `${number(items.length)} ${items.length === 1 ? 'place' : 'places'}. ${state === 'searching' ? 'Searching' : 'Searched'} ${number(searched.conversations)} of ${number(searched.of)} conversations.`}
        {incomplete > 0 &&
          ` Of ${number(incomplete)} of them, some events may be missing: the latest ones of a sandbox that runs, and those that are not stored any more.`}
      </p>
      {state === 'stopped' && searched !== undefined && search.problem.value === undefined && (
        <button type="button" class="small" onClick={() => void search.continue()}>
          Continue
        </button>
      )}
    </section>
  );
}
