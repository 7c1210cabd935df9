import { useSignal, useSignalEffect, type Signal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { idOf } from '../../sentences/entries.ts';
import {
  agentOf,
  branchOf,
  repositoryOf,
  sandboxStatusOf,
  titleOf,
} from '../../sentences/facts.ts';
import { isOpen, isTaken } from '../handover-states.ts';
import { History } from '../history.ts';
import { Live } from '../live.ts';
import { usePage } from '../page-state.ts';
import { BudgetBanner } from './budget-banner.tsx';
import { Questions, Outcome, Question } from './question.tsx';
import { replyOf } from '../../sentences/sentences.ts';
import type { Row } from '../row.ts';
import type { StartTask } from '../wire.ts';
import { ActionProblem } from './loading.tsx';
import { HistoryList } from './history-list.tsx';
import { partOf } from '../part.ts';
import type * as find from '../parts/find.tsx';
import { Part } from './part-of-page.tsx';
import { Pill, useSentence, StageBar } from './conversation-row.tsx';
import { PullRequests } from './pull-requests.tsx';
import { Usage } from './live.tsx';
import { RenameForm, RowControls, type RowMode } from './row-controls.tsx';
import { Skeleton } from './loading.tsx';
import { TextBlock } from './text-block.tsx';
import { useView, ViewPanel, ViewTabs } from './view-tabs.tsx';
import { api, messageOf } from '../api.ts';
import { Attachments } from './attachments.tsx';
import { contentOf, Images } from '../images.ts';
import { newKey } from '../draft.ts';

interface MessageFormProps {
  readonly id: string;
  readonly text: Signal<string>;
  readonly placeholder: string;
  readonly onSent: () => void;
}

/** Maximum characters of all images. The gateway stores messages of up to 384 KiB. */
const maxImageCharacters = 340_000;

/** A form for a message to the agent. A retry after a lost response sends the message only once. */
function MessageForm({ id, text, placeholder, onSent }: MessageFormProps) {
  const page = usePage();
  const isSending = useSignal(false);
  const isSent = useSignal(false);
  const problem = useSignal<string | undefined>(undefined);
  const images = useMemo(() => new Images(maxImageCharacters, problem), []);
  const sent = useRef({ text: '', key: '' });
  const send = async () => {
    if (isSending.peek() || !page.may('start')) return;
    isSending.value = true;
    problem.value = undefined;
    try {
      await images.ready;
      // After a problem, an image of the message may be missing.
      if (problem.peek() !== undefined) return;
      const message = text.peek();
      const attached = images.list.peek();
      const content = contentOf(message, attached);
      if (content.length === 0) return;
      const body = { content, run: true };
      const whole = JSON.stringify(body);
      if (sent.current.text !== whole) sent.current = { text: whole, key: newKey() };
      await api.post(`/api/v1/app-conversations/${id}/send-message`, body, {
        'idempotency-key': sent.current.key,
      });
      sent.current = { text: '', key: '' };
      // Keeps text and images that were added during the request.
      if (text.peek() === message) text.value = '';
      images.list.value = images.list.peek().filter((image) => !attached.includes(image));
      isSent.value = true;
      onSent();
    } catch (error) {
      problem.value = messageOf(error);
    } finally {
      isSending.value = false;
    }
  };
  return (
    <form
      class="message-form"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <textarea
        id="reply"
        aria-label="Message"
        placeholder={placeholder}
        rows={3}
        value={text.value}
        onInput={(event) => {
          text.value = event.currentTarget.value;
          isSent.value = false;
        }}
        onPaste={(event) => void images.attach([...(event.clipboardData?.files ?? [])])}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void send();
        }}
      />
      <Attachments images={images} />
      <div class="submit">
        <button type="submit" class="primary" aria-disabled={isSending.value || !page.may('start')}>
          {isSending.value ? 'Sending…' : 'Send'}
        </button>
        <span class="quiet-text" role="status">
          {isSent.value && problem.value === undefined ? 'Sent.' : ''}
        </span>
        {problem.value !== undefined && (
          <p class="problem" role="alert">
            {problem.value}
          </p>
        )}
      </div>
    </form>
  );
}

/** Delay between two reads of a working agent's events. */
const readIntervalMs = 2_000;
/** Delay between two reads of a working agent's output. */
const liveIntervalMs = 1_000;

/** Delays of reads after a sandbox stops: archiving the last events may take up to 15 s. */
const settlingDelaysMs = [2_000, 6_000, 16_000] as const;

/** Shows the same page whether a conversation is absent, deleted, or belongs to another owner. */
export const Missing = () => (
  <main class="missing">
    <h1>There is nothing at this address.</h1>
    <p>
      <a href="/">All conversations</a>
    </p>
  </main>
);

function State({ row }: { readonly row: Row }) {
  const text = useSentence(row);
  return (
    <>
      <p class="state">{text}</p>
      <ActionProblem class="problem" action={row.action} />
    </>
  );
}

function Steps({ task }: { readonly task: StartTask }) {
  return (
    <>
      {task.steps.map(({ name, state, output, exit_code: exit }) => (
        <details key={name} class="tool" open={state !== 'done'}>
          <summary>
            <b>{name}</b>{' '}
            <span class="tool-state">
              {state}
              {exit === null || exit === 0 ? '' : `, exit code ${exit}`}
            </span>
          </summary>
          {output !== null && output !== '' && (
            <TextBlock label={`Output of ${name}`}>{output}</TextBlock>
          )}
        </details>
      ))}
    </>
  );
}

function Present({ row }: { readonly row: Row }) {
  const page = usePage();
  const { hasUi } = page;
  const mode = useSignal<RowMode>(undefined);
  const [view, show] = useView();
  const message = useSignal('');
  const history = useMemo(() => new History(row.paths), [row]);
  const live = useMemo(() => new Live(row.id, history), [row]);
  const questions = useMemo(() => new Questions(), [row]);
  const facts = row.current.value;
  const asked = questions.openOf(facts.conversation);
  /** Id of the last event when the question was answered. The next event hides the outcome. */
  const answeredAfter = useSignal<string | undefined>(undefined);
  const lastId = idOf(history.events.value.at(-1) ?? {});
  const outcome =
    asked === undefined && answeredAfter.value === lastId
      ? questions.given.value?.outcome
      : undefined;
  const title = titleOf(facts);
  const repository = repositoryOf(facts);
  const branch = branchOf(facts);
  const reply = replyOf(facts);
  const lack = page.lackOf('start');
  const offer = page.handovers.of(row.id, page.account.value?.id);
  /** Adds a text to the message in the form; undefined if no message is possible. */
  const extend =
    reply.isPossible && page.may('start')
      ? (text: string) => {
          const before = message.peek();
          message.value = before.trim() === '' ? text : `${before.trimEnd()}\n\n${text}`;
          document.getElementById('reply')?.focus();
        }
      : undefined;
  const isStarting = facts.task !== undefined && facts.task.status !== 'READY';
  const end = () => (mode.value = undefined);
  useEffect(() => {
    page.title.value = title;
  }, [title]);
  useEffect(() => {
    const address = new URLSearchParams(location.search);
    const event = address.get('event');
    if (event === null) return;
    void history.show(event).then(async () => {
      const text = address.get('find');
      if (text === null) return;
      const { highlight, surroundingsIn } = (await partOf('find')) as typeof find;
      highlight(text, surroundingsIn(address.get('near') ?? '', text));
    });
  }, [history]);
  // Any change of the conversation may mean that there are new events.
  useSignalEffect(() => {
    const { conversation, task } = row.current.value;
    if (conversation !== undefined && (task === undefined || task.status === 'READY'))
      void history.refresh();
  });
  useEffect(() => {
    const timer = setInterval(() => {
      const { conversation } = row.facts;
      const works =
        conversation?.execution_status === 'running' ||
        conversation?.execution_status === 'waiting_for_confirmation' ||
        history.events.peek().length === 0;
      if (
        !works ||
        sandboxStatusOf(row.facts) !== 'RUNNING' ||
        document.visibilityState !== 'visible'
      )
        return;
      void history.refresh();
    }, readIntervalMs);
    return () => clearInterval(timer);
  }, [row]);
  useEffect(() => {
    const timer = setInterval(() => {
      const isRunning =
        sandboxStatusOf(row.facts) === 'RUNNING' &&
        row.facts.conversation?.execution_status === 'running';
      if (!isRunning) live.clear();
      else if (document.visibilityState === 'visible') void live.refresh();
    }, liveIntervalMs);
    return () => clearInterval(timer);
  }, [row]);
  const status = sandboxStatusOf(facts);
  useEffect(() => {
    if (status === 'RUNNING' || status === 'STARTING') return undefined;
    const timers = settlingDelaysMs.map((ms) => setTimeout(() => void history.refresh(), ms));
    return () => timers.forEach((timer) => clearTimeout(timer));
  }, [row, status]);
  return (
    <main class="conversation-page">
      <BudgetBanner />
      <div class="conversation-head">
        <Pill facts={facts} />
        {mode.value === 'rename' ? (
          <RenameForm row={row} onEnd={end} onLeave={end} />
        ) : (
          <h1>{title}</h1>
        )}
        <RowControls row={row} mode={mode} onEnd={end} />
      </div>
      <p class="row-details">
        {isStarting && <StageBar task={facts.task} />}
        <span class="row-origin">
          {[repository, branch].filter((part) => part !== undefined).join('@')}
        </span>
        {[...new Set([agentOf(facts), facts.conversation?.llm_model])]
          .filter(Boolean)
          .map((name) => (
            <span key={name}>{name}</span>
          ))}
        <PullRequests conversation={facts.conversation} />
        {hasUi && facts.conversation !== undefined && (
          <a href={`/conversations/${row.id}`}>Open chat</a>
        )}
      </p>
      <State row={row} />
      {offer !== undefined && isOpen(offer) && (
        <Part name="handover">{({ OwnOffer }) => <OwnOffer record={offer} />}</Part>
      )}
      <Usage history={history} live={live} conversation={facts.conversation} />
      {isStarting && <Steps task={facts.task} />}
      <ViewTabs view={view} onShow={show} />
      <ViewPanel view="events" shown={view}>
        <HistoryList
          history={history}
          live={live}
          asks={asked !== undefined}
          isOver={status === 'MISSING' || status === 'ERROR'}
        />
        {asked !== undefined && (
          <Question
            key={asked.id}
            approval={asked}
            questions={questions}
            onAnswered={() => {
              answeredAfter.value = lastId;
              void history.refresh();
            }}
          />
        )}
        {outcome !== undefined && <Outcome>{outcome}</Outcome>}
      </ViewPanel>
      <ViewPanel view="changes" shown={view}>
        <Part name="changes">{({ Changes }) => <Changes row={row} onMessage={extend} />}</Part>
      </ViewPanel>
      <ViewPanel view="files" shown={view}>
        <Part name="files">{({ Files }) => <Files row={row} onMessage={extend} />}</Part>
      </ViewPanel>
      <ViewPanel view="life" shown={view}>
        <Part name="timeline">{({ Timeline }) => <Timeline row={row} />}</Part>
      </ViewPanel>
      {facts.conversation !== undefined &&
        (reply.isPossible && lack === undefined ? (
          <MessageForm
            id={row.id}
            text={message}
            placeholder={reply.placeholder}
            onSent={() => void history.refresh()}
          />
        ) : (
          <p class="quiet-text">{reply.isPossible ? lack : reply.why}</p>
        ))}
    </main>
  );
}

interface GoneProps {
  /** Undefined if the page has never known it. */
  readonly title: string | undefined;
  /** Owner who has taken the conversation over; undefined if it is deleted. */
  readonly to: string | undefined;
}

/** Shown if a conversation is deleted, or handed over. */
function Gone({ title, to }: GoneProps) {
  const page = usePage();
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    page.title.value = 'Gone';
    heading.current?.focus();
    void page.handovers.read();
  }, []);
  return (
    <main class="missing">
      <h1 ref={heading} tabIndex={-1}>
        {title === undefined ? 'This conversation' : `“${title}”`} was{' '}
        {to === undefined ? 'deleted' : `handed over to ${to}`}.
      </h1>
      <p>
        <a href="/">All conversations</a>
      </p>
    </main>
  );
}

export function ConversationPage({ id }: { readonly id: string }) {
  const { store, handovers, account } = usePage();
  const row = store.rowOf(id);
  const known = useRef(row);
  known.current = row ?? known.current;
  if (row !== undefined) return <Present key={id} row={row} />;
  const handover = handovers.of(id, account.value?.id);
  const taken = handover !== undefined && isTaken(handover) ? handover : undefined;
  const title = known.current && titleOf(known.current.facts);
  if (store.isFilled.value && (title !== undefined || taken !== undefined))
    return <Gone title={title} to={taken?.to} />;
  if (store.isFilled.value) return <Missing />;
  return (
    <main class="conversation-page">
      <Skeleton lines={6}>Loading…</Skeleton>
    </main>
  );
}
