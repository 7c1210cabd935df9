import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { api, messageOf } from '../api.ts';
import { newKey } from '../draft.ts';

interface MessageFormProps {
  readonly id: string;
  readonly onSent: () => void;
}

/** A message for the agent. A second attempt after a lost answer sends the same message once. */
export function MessageForm({ id, onSent }: MessageFormProps) {
  const text = useSignal('');
  const isSending = useSignal(false);
  const problem = useSignal<string | undefined>(undefined);
  const sent = useRef({ text: '', key: '' });
  const send = async () => {
    const message = text.peek();
    if (message.trim() === '' || isSending.peek()) return;
    if (sent.current.text !== message) sent.current = { text: message, key: newKey() };
    isSending.value = true;
    try {
      const body = { content: [{ type: 'text', text: message }], run: true };
      await api.post(`/api/v1/app-conversations/${id}/send-message`, body, {
        'idempotency-key': sent.current.key,
      });
      sent.current = { text: '', key: '' };
      // Text that was typed meanwhile stays.
      if (text.peek() === message) text.value = '';
      problem.value = undefined;
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
        placeholder="Write to the agent"
        rows={3}
        value={text.value}
        onInput={(event) => {
          text.value = event.currentTarget.value;
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void send();
        }}
      />
      <div class="submit">
        <button type="submit" class="primary" aria-disabled={isSending.value}>
          {isSending.value ? 'Sending…' : 'Send'}
        </button>
        {problem.value !== undefined && (
          <p class="problem" role="alert">
            {problem.value}
          </p>
        )}
      </div>
    </form>
  );
}
