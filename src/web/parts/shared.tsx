import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { api, ApiError, messageOf } from '../api.ts';
import {
  agentOf,
  branchOf,
  repositoryOf,
  sandboxStatusOf,
  titleOf,
} from '../../sentences/facts.ts';
import { History } from '../history.ts';
import { Live } from '../live.ts';
import { Refresher } from '../reading.ts';
import { Row, type ConversationPaths } from '../row.ts';
import { exact } from '../times.ts';
import type { ConversationRecord, SharedConversation } from '../wire.ts';
import { HistoryList } from '../components/history-list.tsx';
import { Pill } from '../components/conversation-row.tsx';
import { RetryProblem, Skeleton } from '../components/loading.tsx';
import { Part } from '../components/part-of-page.tsx';
import { PullRequests } from '../components/pull-requests.tsx';
import { useView, ViewPanel, ViewTabs } from '../components/view-tabs.tsx';

/** Delay between two reads of the conversation while the page is visible. */
const readIntervalMs = 4_000;

/** Fields of a record that readers of a share do not get. */
const withheld = {
  sandbox_id: null,
  execution_status_detail: null,
  trigger: null,
  pending_approval: null,
  lost_answer: null,
  llm_model: null,
  metrics: null,
  usage: null,
  model_wait: null,
  parent_conversation_id: null,
  sub_conversation_ids: [],
  public: false,
  tags: {},
  conversation_url: null,
  session_api_key: null,
} satisfies Partial<ConversationRecord>;

interface Address {
  readonly token: string;
  readonly paths: ConversationPaths;
}

/** The URLs of the page's conversation, below the same path prefix as the page. */
function addressOf(pathname: string): Address {
  const [, prefix = '', token = ''] = /^(.*)\/shared\/([^/]*)/.exec(pathname) ?? [];
  const base = `${prefix}/api/v1/shared/${token}`;
  return { token, paths: { base, events: `${base}/events`, isShared: true } };
}

interface EndedProps {
  readonly wasOpen: boolean;
  readonly isSignedIn: boolean;
  readonly token: string;
}

/** The link is unknown, revoked or expired, or for other people: the gateway does not say which. */
function Ended({ wasOpen, isSignedIn, token }: EndedProps) {
  useEffect(() => {
    document.title = 'Shared conversation';
  }, []);
  const here = encodeURIComponent(`/shared/${token}`);
  return (
    <main class="missing">
      <h1>This link {wasOpen ? 'no longer opens anything.' : 'opens nothing, or no longer.'}</h1>
      {isSignedIn ? (
        <p>Ask the person who sent it for another one.</p>
      ) : (
        <p>
          If it was shared with you by name, or with your group,{' '}
          <a href={`../login?return_to=${here}`}>sign in</a>.
        </p>
      )}
    </main>
  );
}

interface PresentProps {
  readonly row: Row;
  readonly history: History;
  readonly shared: SharedConversation['shared'];
  readonly problem: string | undefined;
  readonly onRetry: () => void;
}

function Present({ row, history, shared, problem, onRetry }: PresentProps) {
  const [view, show] = useView();
  const live = useMemo(() => new Live(row.id, history), [row]);
  const facts = row.current.value;
  const title = titleOf(facts);
  const status = sandboxStatusOf(facts);
  useEffect(() => {
    document.title = title;
  }, [title]);
  const until = shared.expires_at === null ? '' : ` until ${exact(shared.expires_at)}`;
  return (
    <main class="conversation-page">
      <div class="conversation-head">
        <Pill facts={facts} />
        <h1>{title}</h1>
      </div>
      <p class="row-details">
        <span>
          To read only, shared by {facts.conversation?.created_by_user_id}
          {until}
        </span>
        <span class="row-origin">
          {[repositoryOf(facts), branchOf(facts)].filter((part) => part !== undefined).join('@')}
        </span>
        <span>{agentOf(facts)}</span>
        <PullRequests conversation={facts.conversation} />
      </p>
      {problem !== undefined && <RetryProblem text={problem} onRetry={onRetry} />}
      <ViewTabs view={view} onShow={show} />
      <ViewPanel view="events" shown={view}>
        <HistoryList
          history={history}
          live={live}
          asks={false}
          isOver={status === 'MISSING' || status === 'ERROR'}
        />
      </ViewPanel>
      <ViewPanel view="changes" shown={view}>
        <Part name="changes">{({ Changes }) => <Changes row={row} />}</Part>
      </ViewPanel>
      <ViewPanel view="files" shown={view}>
        <Part name="files">{({ Files }) => <Files row={row} />}</Part>
      </ViewPanel>
      <ViewPanel view="life" shown={view}>
        <Part name="timeline">{({ Timeline }) => <Timeline row={row} />}</Part>
      </ViewPanel>
    </main>
  );
}

/** The page of a conversation that a link shares, which calls only the reads of the link. */
export function SharedPage({ isSignedIn }: { readonly isSignedIn: boolean }) {
  const { token, paths } = useMemo(() => addressOf(location.pathname), []);
  const history = useMemo(() => new History(paths), [paths]);
  const row = useSignal<Row | undefined>(undefined);
  const shared = useSignal<SharedConversation['shared'] | undefined>(undefined);
  const isEnded = useSignal(false);
  const problem = useSignal<string | undefined>(undefined);
  const reading = useMemo(() => {
    let last = '';
    return new Refresher(async () => {
      try {
        const answer = await api.get<SharedConversation>(`${paths.base}/conversation`, {});
        problem.value = undefined;
        isEnded.value = false;
        const text = JSON.stringify(answer);
        if (text !== last) {
          const { shared: terms, ...record } = answer;
          const facts = { conversation: { ...withheld, ...record } };
          shared.value = terms;
          if (row.peek() === undefined) row.value = new Row(record.id, facts, paths);
          else row.peek()?.set(facts);
        }
        // A change of the record may mean new events; a running agent has them without one.
        if (text !== last || answer.execution_status === 'running') await history.refresh();
        last = text;
      } catch (error) {
        isEnded.value = error instanceof ApiError && error.problem.status === 404;
        problem.value = messageOf(error);
      }
    });
  }, [paths]);
  useEffect(() => {
    const read = () => {
      if (document.visibilityState === 'visible' && !isEnded.peek()) void reading.run();
    };
    read();
    const timer = setInterval(read, readIntervalMs);
    document.addEventListener('visibilitychange', read);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', read);
    };
  }, [reading]);
  const again = () => void reading.run();
  return (
    <>
      <header>
        <div class="bar-content">
          <span class="home">Shared conversation</span>
        </div>
      </header>
      {isEnded.value && (
        <Ended wasOpen={row.value !== undefined} isSignedIn={isSignedIn} token={token} />
      )}
      {!isEnded.value && row.value !== undefined && shared.value !== undefined && (
        <Present
          row={row.value}
          history={history}
          shared={shared.value}
          problem={problem.value}
          onRetry={again}
        />
      )}
      {!isEnded.value && row.value === undefined && (
        <main class="conversation-page">
          {problem.value === undefined ? (
            <Skeleton lines={6}>Loading…</Skeleton>
          ) : (
            <RetryProblem text={problem.value} onRetry={again} />
          )}
        </main>
      )}
    </>
  );
}
