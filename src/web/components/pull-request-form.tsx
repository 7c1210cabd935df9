import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { api, messageOf } from '../api.ts';
import { PullRequestLink } from './pull-requests.tsx';

interface Opened {
  readonly number: number;
  readonly url: string;
}

interface PullRequestFormProps {
  /** The id of the conversation. */
  readonly id: string;
  /** The title that the form begins with. */
  readonly title: string;
  readonly onMessage: ((text: string) => void) | undefined;
}

const pushText =
  'Commit all of your changes on a branch of their own, and push it to origin. Do not open a pull request.';

/** Opens a pull request from the branch that the agent has pushed last. */
export function PullRequestForm({ id, title, onMessage }: PullRequestFormProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const isSending = useSignal(false);
  const problem = useSignal<string | undefined>(undefined);
  const opened = useSignal<Opened | undefined>(undefined);
  const send = async (form: HTMLFormElement) => {
    if (isSending.value) return;
    isSending.value = true;
    problem.value = undefined;
    const fields = new FormData(form);
    const text = (name: string) => {
      const value = fields.get(name);
      return typeof value === 'string' && value.trim() !== '' ? { [name]: value.trim() } : {};
    };
    const body = {
      ...text('title'),
      ...text('body'),
      ...text('base'),
      draft: fields.has('draft'),
    };
    try {
      opened.value = await api.post<Opened>(`/api/v1/app-conversations/${id}/pull-request`, body);
    } catch (error) {
      problem.value = messageOf(error);
    } finally {
      isSending.value = false;
    }
  };
  const done = opened.value;
  return (
    <>
      <button type="button" class="small" onClick={() => dialog.current?.showModal()}>
        Pull request…
      </button>
      <dialog ref={dialog} class="pull-request-dialog" aria-labelledby="pull-request-title">
        <h2 id="pull-request-title">Open a pull request</h2>
        <p class="quiet-text">
          From the branch that was pushed last. Changes that are not committed and pushed are not in
          it.
        </p>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void send(event.currentTarget);
          }}
        >
          <label class="field">
            <span>Title</span>
            <input name="title" required maxLength={256} defaultValue={title} />
          </label>
          <label class="field">
            <span>Description</span>
            <textarea name="body" rows={4} maxLength={65_536} />
          </label>
          <label class="field">
            <span>Into the branch</span>
            <input name="base" placeholder="Default branch" />
          </label>
          <label>
            <input type="checkbox" name="draft" /> Draft: no review yet
          </label>
          {problem.value !== undefined && (
            <p class="problem" role="alert">
              {problem.value}
            </p>
          )}
          {done !== undefined && (
            <p role="status">
              <PullRequestLink number={done.number} url={done.url} /> is open.
            </p>
          )}
          <div class="submit">
            {done === undefined && (
              <button type="submit" class="primary" aria-disabled={isSending.value}>
                {isSending.value ? 'Opening…' : 'Open'}
              </button>
            )}
            {done === undefined && onMessage !== undefined && (
              <button
                type="button"
                onClick={() => {
                  onMessage(pushText);
                  dialog.current?.close();
                }}
              >
                Ask the agent to push
              </button>
            )}
            <button type="button" class="quiet" onClick={() => dialog.current?.close()}>
              Close
            </button>
          </div>
        </form>
      </dialog>
    </>
  );
}
