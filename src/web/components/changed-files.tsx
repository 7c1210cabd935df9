import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { messageOf } from '../api.ts';
import { ChangedFiles } from '../changed-files.ts';
import { repositoryOf, sandboxStatusOf } from '../facts.ts';
import { lineDiffOf, type LineDiff } from '../line-diff.ts';
import type { Row } from '../row.ts';
import type { GitChange } from '../wire.ts';
import { LineDiffTable, SourceText } from './line-diff.tsx';
import { RetryProblem } from './retry-problem.tsx';

/** Files that one step adds to the list. */
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
}

/** A file of the list, whose versions are read when it is opened. */
function File({ change: { path, status }, files, isLive }: FileProps) {
  const isOpen = useSignal(false);
  const diff = useSignal<LineDiff | undefined>(undefined);
  const problem = useSignal<string | undefined>(undefined);
  const attempt = useSignal(0);
  useEffect(() => {
    if (!isOpen.value) return undefined;
    const reading = new AbortController();
    problem.value = undefined;
    files.versionsOf(path, reading.signal).then(
      (versions) => {
        if (!reading.signal.aborted) diff.value = lineDiffOf(status, versions, isLive);
      },
      (error: unknown) => {
        if (!reading.signal.aborted) problem.value = messageOf(error);
      },
    );
    return () => reading.abort();
  }, [path, status, isLive, isOpen.value, attempt.value, files.revision.value]);
  const lines = diff.value?.lines;
  return (
    <details
      class="changed-file"
      onToggle={(event) => {
        isOpen.value = event.currentTarget.open;
      }}
    >
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
      {isOpen.value && diff.value !== undefined && <LineDiffTable path={path} diff={diff.value} />}
      {isOpen.value && diff.value === undefined && problem.value === undefined && (
        <p class="quiet-text" role="status">
          Loading…
        </p>
      )}
    </details>
  );
}

interface FilesProps {
  readonly row: Row;
  readonly folder: string;
}

function Files({ row, folder }: FilesProps) {
  const files = useMemo(() => new ChangedFiles(row.id, folder), [row, folder]);
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
      ? 'No changes: the conversation has no repository, and git knows of no change in its folder.'
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
        <button
          type="button"
          class="small quiet"
          aria-disabled={files.isReading.value}
          onClick={again}
        >
          {files.isReading.value ? 'Reading…' : 'Read again'}
        </button>
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

/** The files that the agent has changed in the repository of a conversation. */
export function Changes({ row }: { readonly row: Row }) {
  const folder = row.current.value.conversation?.workspace?.working_dir;
  // The page of a long history is at its end.
  useEffect(() => scrollTo({ top: 0 }), []);
  if (folder === undefined)
    return (
      <p class="quiet-text">
        There is no folder with changes: the start is not over, or has failed.
      </p>
    );
  return <Files row={row} folder={folder} />;
}
