import { useSignal, signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { Approval, ConversationRecord, WholeApproval } from '../wire.ts';
import { InOrder, TextBlock } from './text-block.tsx';
import { api, messageOf } from '../api.ts';
import { usePage } from '../page-state.ts';
import { outcomeOf, type Stored } from '../../sentences/sentences.ts';

/** A user's answer to a question, until the record of the conversation shows it. */
interface GivenAnswer {
  readonly id: string;
  /** Undefined for a rejection of a question that has no option to reject. */
  readonly option: string | undefined;
  readonly state: 'sending' | 'stored' | 'failed';
  readonly problem?: string;
  readonly outcome?: string;
}

/** The request for the whole text of a question whose record contains only a part of the text. */
interface Reading extends Pick<Approval, 'id'> {
  /** Undefined during the request, and after a problem. */
  readonly whole?: Pick<WholeApproval, 'text' | 'call_hash'>;
  readonly problem?: string;
}

const pathOf = ({ id, conversation_id: conversation }: Approval): string =>
  `/api/v1/app-conversations/${conversation}/approvals/${encodeURIComponent(id)}`;

export class Questions {
  readonly given = signal<GivenAnswer | undefined>(undefined);
  readonly reading = signal<Reading | undefined>(undefined);

  /** Whether the user was able to read all tool calls of the question. */
  isRead({ id, complete }: Approval): boolean {
    const { id: known, whole } = this.reading.value ?? {};
    return complete || (id === known && whole !== undefined && whole.call_hash !== null);
  }

  async read(approval: Approval): Promise<void> {
    const { id } = approval;
    this.reading.value = { id };
    try {
      const whole = await api.get<WholeApproval>(pathOf(approval), undefined);
      this.reading.value = { id, whole };
    } catch (error) {
      this.reading.value = { id, problem: messageOf(error) };
    }
  }

  openOf(conversation: ConversationRecord | undefined): Approval | undefined {
    const asked = conversation?.pending_approval ?? undefined;
    const { id, state } = this.given.value ?? {};
    return asked?.id === id && state === 'stored' ? undefined : asked;
  }

  /** Sends an answer only once. `openOf` returns the question until the answer is stored. */
  async answer(approval: Approval, option: string | undefined, reason: string): Promise<void> {
    const { id } = approval;
    const given = this.given.peek();
    if (given?.id === id && given.state !== 'failed') return;
    this.given.value = { id, option, state: 'sending' };
    try {
      const reading = this.reading.peek();
      const hash = reading?.id === id ? reading.whole?.call_hash : undefined;
      const stored = await api.post<Stored>(pathOf(approval), {
        ...(option === undefined ? { decision: 'reject' } : { option_id: option }),
        ...(reason.trim() === '' ? {} : { reason }),
        ...(hash == null ? {} : { call_hash: hash }),
      });
      const outcome = outcomeOf(stored, { isRunning: approval.sandbox_status === 'RUNNING' });
      this.given.value = { id, option, state: 'stored', outcome };
    } catch (error) {
      this.given.value = { id, option, state: 'failed', problem: messageOf(error) };
    }
  }
}

/** Time in which a new question ignores clicks, which may be meant for another element. */
const inertMs = 500;

interface QuestionProps {
  readonly approval: Approval;
  readonly questions: Questions;
  readonly onAnswered: () => void;
}

const isOnce = (kind: Approval['options'][number]['kind']): boolean => kind.endsWith('_once');
/** Cancels the prompt that the agent works on. Offered if the agent has no option to reject. */
const rejection = { id: undefined, name: 'Reject', kind: 'reject_once' } as const;
const isRejection = (kind: string): boolean => kind.startsWith('reject');

/** A question that waits for a person: of the agent, or about a budget that is used up. */
export function Question({ approval, questions, onAnswered }: QuestionProps) {
  const page = usePage();
  const lack = page.lackOf('manage');
  const isReady = useSignal(false);
  const reason = useSignal('');
  const given = questions.given.value?.id === approval.id ? questions.given.value : undefined;
  const isPending = given !== undefined && given.state !== 'failed';
  const isBudget = approval.kind === 'budget';
  const isForAdmin = approval.decided_by === 'Admin' && page.account.value?.role !== 'admin';
  const reading = questions.reading.value?.id === approval.id ? questions.reading.value : undefined;
  const text = reading?.whole?.text ?? approval.summary;
  /** The text whose end the user has seen. */
  const seen = useSignal<string | undefined>(undefined);
  const isSeen = isBudget || seen.value === text;
  const isRead = questions.isRead(approval) && isSeen;
  const isWhole = reading?.whole != null && reading.whole.call_hash !== null;
  useEffect(() => {
    const timer = setTimeout(() => (isReady.value = true), inertMs);
    return () => clearTimeout(timer);
  }, []);
  const option = ({ id, name, kind }: Approval['options'][number] | typeof rejection) => {
    const isPossible = page.may('manage') && !isPending && (isRead || isRejection(kind));
    return (
      <button
        key={id ?? ''}
        type="button"
        class={isRejection(kind) ? 'danger' : ''}
        aria-disabled={!isReady.value || !isPossible}
        onClick={() => {
          if (!isReady.peek() || !isPossible) return;
          void questions
            .answer(approval, id, isRejection(kind) ? reason.peek() : '')
            .then(onAnswered);
        }}
      >
        {isPending && given.option === id ? 'Sending…' : name}
      </button>
    );
  };
  const rejecting = ({ kind }: Approval['options'][number]) => isRejection(kind);
  const offered = isForAdmin ? approval.options.filter(rejecting) : approval.options;
  // All agents get the same order of buttons, with rejections on the left.
  const once = offered.filter(({ kind }) => isOnce(kind));
  const always = offered.filter(({ kind }) => !isOnce(kind));
  const rejects = approval.options.some(({ kind }) => isRejection(kind));
  return (
    <section id="question" class="agent-question" aria-labelledby={`question-${approval.id}`}>
      <div role="status">
        <h2 id={`question-${approval.id}`}>
          {isWhole ? (
            'The agent asks about all of this:'
          ) : isBudget ? (
            'The budget is used up'
          ) : (
            <>
              The agent asks: <InOrder>{approval.title}</InOrder>
            </>
          )}
        </h2>
      </div>
      {approval.notice !== null && <p>{approval.notice}</p>}
      {approval.notice === null && !isBudget && approval.sandbox_status === 'PAUSED' && (
        <p>The sandbox is paused. Your answer resumes it.</p>
      )}
      {isBudget ? (
        <p>{text}</p>
      ) : (
        <>
          <p class="quiet-text">
            <InOrder>{approval.tool}</InOrder>
          </p>
          <TextBlock
            key={text}
            label="What the agent wants to do"
            takesFocus={reading?.whole != null}
            onEnd={() => (seen.value = text)}
          >
            {text.split(/(?<=\n)/).map((line, index) => (
              <span class="line" key={index}>
                <InOrder>{line}</InOrder>
              </span>
            ))}
          </TextBlock>
        </>
      )}
      {lack === undefined && questions.isRead(approval) && !isSeen && (
        <p class="quiet-text">Scroll to the end of the text to approve it.</p>
      )}
      {!approval.complete && <Whole {...{ approval, questions, reading }} />}
      {lack === undefined ? (
        <>
          {!isBudget && (
            <label class="field">
              <span>Why not (optional, with a rejection)</span>
              <input
                type="text"
                maxLength={1024}
                value={reason.value}
                onInput={(event) => (reason.value = event.currentTarget.value)}
              />
            </label>
          )}
          <div class="submit">
            {!rejects && option(rejection)}
            {[...once.filter(rejecting), ...once.filter((one) => !rejecting(one))].map(option)}
            {always.length > 0 && <span class="always">{always.map(option)}</span>}
          </div>
        </>
      ) : (
        <p>{lack} Somebody else has to answer.</p>
      )}
      {given?.problem !== undefined && (
        <p class="problem" role="alert">
          {given.problem}
        </p>
      )}
    </section>
  );
}

/** The outcome of an answer. Takes the focus if the removed buttons of the question had it. */
export function Outcome({ children }: { readonly children: string }) {
  const line = useRef<HTMLParagraphElement>(null);
  useEffect(() => {
    if (document.activeElement === document.body) line.current?.focus();
  }, []);
  return (
    <p ref={line} class="notice" role="status" tabIndex={-1}>
      {children}
    </p>
  );
}

interface WholeProps extends Pick<QuestionProps, 'approval' | 'questions'> {
  readonly reading: Reading | undefined;
}

/** A button to read the whole text of a question, which the user must read to approve it. */
function Whole({ approval, questions, reading }: WholeProps) {
  if (reading?.whole !== undefined)
    return (
      <p class="quiet-text">
        {reading.whole.call_hash === null
          ? 'The tool calls can not be read whole, so they can only be rejected.'
          : 'These are all tool calls, as a whole.'}
      </p>
    );
  return (
    <>
      <p>
        The text above is a part of what the agent wants to do. Read all of it to approve it, where
        it can be shown.
      </p>
      <button type="button" onClick={() => void questions.read(approval)}>
        Read all
      </button>
      {reading?.problem !== undefined && (
        <p class="problem" role="alert">
          {reading.problem}
        </p>
      )}
    </>
  );
}
