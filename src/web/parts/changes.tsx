import { useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { messageOf, api } from '../api.ts';
import { ChangedFiles } from '../changed-files.ts';
import { repositoryOf, sandboxStatusOf, titleOf } from '../../sentences/facts.ts';
import { lineDiffOf, type LineDiff, commenting, type Commented } from '../line-diff.ts';
import { usePage } from '../page-state.ts';
import type { Row } from '../row.ts';
import type { GitChange, GitDiff } from '../wire.ts';
import { coloursOf } from '../file-colours.ts';
import { FileImage, isImage, SourceText } from '../components/file-view.tsx';
import { LineDiffTable, type Colours } from '../components/line-diff.tsx';
import { RetryProblem } from '../components/loading.tsx';
import { PullRequestLink } from '../components/pull-requests.tsx';

interface OpenedRequest {
  readonly number: number;
  readonly url: string;
}

interface PullRequestFormProps {
  readonly id: string;
  readonly title: string;
  readonly onMessage: ((text: string) => void) | undefined;
}

const pushText =
  'Commit all of your changes on a branch of their own, and push it to origin. Do not open a pull request.';

/** Opens a pull request from the branch that the agent has pushed last. */
function PullRequestForm({ id, title, onMessage }: PullRequestFormProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const isSending = useSignal(false);
  const problem = useSignal<string | undefined>(undefined);
  const opened = useSignal<OpenedRequest | undefined>(undefined);
  const send = async (form: HTMLFormElement) => {
    if (isSending.value) return;
    isSending.value = true;
    problem.value = undefined;
    const fields = new FormData(form);
    const text = (name: string) => {
      const value = fields.get(name);
      return typeof value === 'string' && value.trim() !== '' ? { [name]: value.trim() } : {};
    };
    const body = { ...text('title'), ...text('body'), ...text('base'), draft: fields.has('draft') };
    try {
      opened.value = await api.post<OpenedRequest>(
        `/api/v1/app-conversations/${id}/pull-request`,
        body,
      );
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

const filesPerStep = 500;

const statuses = {
  ADDED: 'Added',
  UPDATED: 'Modified',
  DELETED: 'Deleted',
  MOVED: 'Renamed',
} as const satisfies Readonly<Record<GitChange['status'], string>>;

interface FileProps {
  readonly change: GitChange;
  readonly files: ChangedFiles;
  readonly isLive: boolean;
  readonly isSplit: boolean;
  readonly onComment: ((comment: Commented) => void) | undefined;
}

interface Opened {
  readonly diff: LineDiff;
  readonly colours: Colours;
  readonly versions: GitDiff;
}

/** A changed file, whose versions are read when it is opened. */
function File({ change: { path, status }, files, isLive, isSplit, onComment }: FileProps) {
  const isOpen = useSignal(false);
  const opened = useSignal<Opened | undefined>(undefined);
  const problem = useSignal<string | undefined>(undefined);
  const attempt = useSignal(0);
  useEffect(() => {
    if (!isOpen.value) return undefined;
    const reading = new AbortController();
    problem.value = undefined;
    const read = async () => {
      const versions = await files.versionsOf(path, reading.signal);
      const diff = lineDiffOf(status, versions, isLive);
      const colours = diff.rows.length === 0 ? {} : await coloursOf(path, versions);
      if (!reading.signal.aborted) opened.value = { diff, colours, versions };
    };
    read().catch((error: unknown) => {
      if (!reading.signal.aborted) problem.value = messageOf(error);
    });
    return () => reading.abort();
  }, [path, status, isLive, isOpen.value, attempt.value, files.revision.value]);
  const lines = opened.value?.diff.lines;
  const image = isImage(path) && status !== 'DELETED' ? files.contentOf(path) : undefined;
  return (
    <details class="changed-file" onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
      <summary>
        <span class={`file-status file-${status.toLowerCase()}`}>{statuses[status]}</span>
        <span class="file-path">
          <SourceText>{path}</SourceText>
        </span>
        {lines !== undefined && (
          <span class="file-lines">
            <span class="count-added">+{lines.added}</span>{' '}
            <span class="count-removed">−{lines.removed}</span>
          </span>
        )}
      </summary>
      {isOpen.value && problem.value !== undefined && (
        <RetryProblem text={problem.value} onRetry={() => (attempt.value += 1)} />
      )}
      {isOpen.value && opened.value !== undefined && (
        <>
          {image !== undefined && (
            <FileImage address={image} path={path} versions={opened.value.versions} />
          )}
          <LineDiffTable
            path={path}
            diff={opened.value.diff}
            colours={opened.value.colours}
            isSplit={isSplit}
            onComment={onComment}
          />
        </>
      )}
      {isOpen.value && opened.value === undefined && problem.value === undefined && (
        <p class="quiet-text" role="status">
          Loading…
        </p>
      )}
    </details>
  );
}

/** Whether two versions fit side by side. This width must be the same as in styles.css. */
const isWide = () => matchMedia('(min-width: 900px)').matches;
const splitKey = 'diff-side-by-side';

interface ChangesProps {
  readonly row: Row;
  /** Adds a text to the next message; undefined if no message is possible. */
  readonly onMessage?: ((text: string) => void) | undefined;
}

interface FilesProps extends ChangesProps {
  readonly folder: string;
}

function Files({ row, folder, onMessage }: FilesProps) {
  const { may } = usePage();
  const onComment = commenting(onMessage);
  const isSplit = useSignal(localStorage.getItem(splitKey) === 'true');
  const files = useMemo(() => new ChangedFiles(row.paths, folder), [row, folder]);
  const shown = useSignal(filesPerStep);
  const facts = row.current.value;
  const sandbox = sandboxStatusOf(facts);
  const isLive = sandbox === 'RUNNING';
  const run = facts.conversation?.execution_status;
  useEffect(() => void files.refresh(), [files, sandbox, run]);
  const list = files.list.value;
  const problem = files.problem.value;
  const absence = files.absence.value;
  const again = () => void files.refresh();
  const empty =
    repositoryOf(facts) === undefined
      ? 'No changes: the conversation has no repository, and git knows of no change in its folder that is not committed. The tab Files has all files.'
      : 'No changes: no file differs from the base of the repository.';
  return (
    <>
      <div class="history-head">
        <h2>
          Changes
          {list !== undefined && absence === undefined && (
            <span class="count"> {list.length.toLocaleString('en-US')}</span>
          )}
        </h2>
        <span class="row-actions">
          {facts.conversation !== undefined &&
            repositoryOf(facts) !== undefined &&
            may('manage') && (
              <PullRequestForm id={row.id} title={titleOf(facts)} onMessage={onMessage} />
            )}
          <button
            type="button"
            class="small quiet for-wide"
            aria-pressed={isSplit.value}
            onClick={() => {
              isSplit.value = !isSplit.value;
              localStorage.setItem(splitKey, String(isSplit.value));
            }}
          >
            Side by side
          </button>
          <button
            type="button"
            class="small quiet"
            aria-disabled={files.isReading.value}
            onClick={again}
          >
            {files.isReading.value ? 'Reading…' : 'Read again'}
          </button>
        </span>
      </div>
      {!isLive && list !== undefined && absence === undefined && (
        <p class="quiet-text">The files are as they were at the last pause.</p>
      )}
      {absence !== undefined && <p class="quiet-text">{absence}</p>}
      {problem !== undefined && <RetryProblem text={problem} onRetry={again} />}
      {list === undefined && absence === undefined && problem === undefined && (
        <p class="quiet-text" role="status">
          Loading…
        </p>
      )}
      {list?.length === 0 && absence === undefined && <p class="quiet-text">{empty}</p>}
      {list !== undefined && absence === undefined && (
        <div class="changed-files">
          {list.slice(0, shown.value).map((change) => (
            <File
              key={`${change.status} ${change.path}`}
              change={change}
              files={files}
              isLive={isLive}
              isSplit={isSplit.value && isWide()}
              onComment={onComment}
            />
          ))}
        </div>
      )}
      {list !== undefined && absence === undefined && list.length > shown.value && (
        <button type="button" class="small" onClick={() => (shown.value += filesPerStep)}>
          Show more of {list.length.toLocaleString('en-US')} files
        </button>
      )}
    </>
  );
}

export function Changes({ row, onMessage }: ChangesProps) {
  const folder = row.current.value.conversation?.workspace?.working_dir;
  // Scrolls to the top, because the page may be at the end of a long history.
  useEffect(() => scrollTo({ top: 0 }), []);
  if (folder === undefined)
    return (
      <p class="quiet-text">
        There is no folder with changes: the start is not over, or has failed.
      </p>
    );
  return <Files row={row} folder={folder} onMessage={onMessage} />;
}
