import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { Questions } from '../questions.ts';
import type { Approval } from '../wire.ts';
import { TextBlock } from './text-block.tsx';

/** A click that was meant for what had this place before must not answer. */
const inertMs = 500;

interface QuestionProps {
  readonly approval: Approval;
  readonly questions: Questions;
  readonly onAnswered: () => void;
}

const isOnce = (kind: Approval['options'][number]['kind']): boolean => kind.endsWith('_once');
const isRejection = (kind: string): boolean => kind.startsWith('reject');

/** A question that the agent waits for. Nothing is answered by itself. */
export function Question({ approval, questions, onAnswered }: QuestionProps) {
  const isReady = useSignal(false);
  const reason = useSignal('');
  const given = questions.given.value?.id === approval.id ? questions.given.value : undefined;
  const isPending = given !== undefined && given.state !== 'failed';
  useEffect(() => {
    const timer = setTimeout(() => {
      isReady.value = true;
    }, inertMs);
    return () => clearTimeout(timer);
  }, []);
  const option = ({ id, name, kind }: Approval['options'][number]) => (
    <button
      key={id}
      type="button"
      class={isRejection(kind) ? 'danger' : ''}
      aria-disabled={!isReady.value || isPending}
      onClick={() => {
        if (!isReady.peek() || isPending) return;
        void questions
          .answer(approval, id, isRejection(kind) ? reason.peek() : '')
          .then(onAnswered);
      }}
    >
      {isPending && given.option === id ? 'Sending…' : name}
    </button>
  );
  const always = approval.options.filter(({ kind }) => !isOnce(kind));
  return (
    <section class="agent-question" aria-labelledby={`question-${approval.id}`}>
      <div role="status">
        <h2 id={`question-${approval.id}`}>The agent asks: {approval.title}</h2>
      </div>
      {approval.notice !== null && <p>{approval.notice}</p>}
      <p class="quiet-text">{approval.tool}</p>
      <TextBlock label="What the agent wants to do">{approval.summary}</TextBlock>
      <label class="field">
        <span>Why not (optional, with a rejection)</span>
        <input
          type="text"
          maxLength={1024}
          value={reason.value}
          onInput={(event) => {
            reason.value = event.currentTarget.value;
          }}
        />
      </label>
      <div class="submit">
        {approval.options.filter(({ kind }) => isOnce(kind)).map(option)}
        {always.length > 0 && <span class="always">{always.map(option)}</span>}
      </div>
      {given?.problem !== undefined && (
        <p class="problem" role="alert">
          {given.problem}
        </p>
      )}
    </section>
  );
}
