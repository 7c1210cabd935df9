import { useSignal, type Signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { api, messageOf } from '../api.ts';
import { absolutePath, contentAddress } from '../changed-files.ts';
import type { ColouredLines } from '../coloured-lines.ts';
import { commenting, type Commented, linesOf, type LineDiff } from '../line-diff.ts';
import { sandboxStatusOf } from '../../sentences/facts.ts';
import { coloursOfText } from '../file-colours.ts';
import { contentOf, matchingPaths } from '../file-tree.ts';
import type { Row } from '../row.ts';
import { FileImage, isBitmap, isImage, SourceText } from '../components/file-view.tsx';
import { LineDiffTable } from '../components/line-diff.tsx';
import { RetryProblem } from '../components/loading.tsx';

/** Maximum files of a folder that the gateway lists. */
const maxFiles = 10_000;
const maxMatches = 200;

interface OpenProps {
  readonly opened: Signal<string | undefined>;
}

interface FileButtonProps extends OpenProps {
  readonly path: string;
  readonly label: string;
}

const FileButton = ({ path, label, opened }: FileButtonProps) => (
  <li>
    <button
      type="button"
      class="tree-file"
      aria-current={opened.value === path}
      onClick={() => (opened.value = path)}
    >
      <SourceText>{label}</SourceText>
    </button>
  </li>
);

interface FolderListProps extends OpenProps {
  readonly paths: readonly string[];
  /** The path of the folder; '' for the root. */
  readonly folder: string;
}

/** Maximum depth of folders that are opened because they contain the opened file. */
const maxOpened = 30;

interface FolderItemProps extends FolderListProps {
  readonly name: string;
}

/** A folder whose content is rendered when it is opened. */
function FolderItem({ paths, folder, name, opened }: FolderItemProps) {
  const isOpen = useSignal(
    opened.value?.startsWith(`${folder}/`) === true && folder.split('/').length < maxOpened,
  );
  return (
    <li>
      <details open={isOpen.value} onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
        <summary>
          <SourceText>{name}</SourceText>
        </summary>
        {isOpen.value && <FolderList paths={paths} folder={folder} opened={opened} />}
      </details>
    </li>
  );
}

function FolderList({ paths, folder, opened }: FolderListProps) {
  const { folders, files } = useMemo(() => contentOf(paths, folder), [paths, folder]);
  const below = (name: string) => (folder === '' ? name : `${folder}/${name}`);
  return (
    <ul role="list">
      {folders.map((name) => (
        <FolderItem key={name} paths={paths} folder={below(name)} name={name} opened={opened} />
      ))}
      {files.map((name) => (
        <FileButton key={name} path={below(name)} label={name} opened={opened} />
      ))}
    </ul>
  );
}

interface Content {
  readonly text: string;
  readonly diff: LineDiff;
  readonly colours: ColouredLines | undefined;
}

interface FileViewProps {
  readonly row: Row;
  readonly folder: string;
  readonly path: string;
  readonly isLive: boolean;
  /** A new value after each read of the list, because the file may have changed too. */
  readonly version: unknown;
  readonly onComment: ((comment: Commented) => void) | undefined;
}

function FileView({ row, folder, path, isLive, version, onComment }: FileViewProps) {
  const content = useSignal<Content | undefined>(undefined);
  const problem = useSignal<string | undefined>(undefined);
  const attempt = useSignal(0);
  const absolute = absolutePath(folder, path);
  const { base, isShared } = row.paths;
  const address = contentAddress(base, absolute);
  const isText = !isBitmap(path);
  useEffect(() => {
    if (!isText) return undefined;
    const reading = new AbortController();
    const read = async () => {
      problem.value = undefined;
      const text = await api.get<string>(`${base}/file`, { file_path: absolute }, reading.signal);
      const colours = await coloursOfText(path, text);
      if (!reading.signal.aborted) content.value = { text, diff: linesOf(text), colours };
    };
    read().catch((error: unknown) => {
      if (!reading.signal.aborted) problem.value = messageOf(error);
    });
    return () => reading.abort();
  }, [absolute, attempt.value, version]);
  const shown = content.value;
  const colours = useMemo(() => ({ new: shown?.colours }), [shown]);
  return (
    <section class="file-view" aria-labelledby="file-title">
      <div class="history-head">
        <h3 id="file-title">
          <SourceText>{path}</SourceText>
        </h3>
        {!isShared && (
          <a class="button small quiet" href={address} download>
            Download
          </a>
        )}
      </div>
      {!isText && !isShared && <FileImage path={path} address={address} />}
      {!isText && isShared && (
        <p class="quiet-text">Images of the files are not shown to readers of a link.</p>
      )}
      {problem.value !== undefined && (
        <RetryProblem text={problem.value} onRetry={() => (attempt.value += 1)} />
      )}
      {isText && shown === undefined && problem.value === undefined && (
        <p class="quiet-text" role="status">
          Loading…
        </p>
      )}
      {shown?.text === '' && (
        <p class="quiet-text">
          {isLive
            ? 'The file is empty.'
            : 'Nothing to show: the file is empty, or the pause has kept its name alone. A pause keeps the texts of changed files.'}
        </p>
      )}
      {shown !== undefined && shown.text !== '' && (
        <>
          {isImage(path) && !isShared && (
            <FileImage
              path={path}
              address={address}
              versions={{ original: null, modified: shown.text }}
            />
          )}
          <LineDiffTable path={path} diff={shown.diff} colours={colours} onComment={onComment} />
        </>
      )}
    </section>
  );
}

interface FilesProps {
  readonly row: Row;
  /** Adds a text to the next message; undefined if no message is possible. */
  readonly onMessage?: ((text: string) => void) | undefined;
}

function Tree({ row, folder, onMessage }: FilesProps & { readonly folder: string }) {
  const paths = useSignal<readonly string[] | undefined>(undefined);
  const problem = useSignal<string | undefined>(undefined);
  const attempt = useSignal(0);
  const filter = useSignal('');
  const opened = useSignal(new URLSearchParams(location.search).get('path') ?? undefined);
  const status = sandboxStatusOf(row.current.value);
  const run = row.current.value.conversation?.execution_status;
  const isLive = status === 'RUNNING';
  useEffect(() => {
    const reading = new AbortController();
    const path = `${row.paths.base}/files`;
    api.get<readonly string[]>(path, { path: folder }, reading.signal).then(
      (found) => {
        paths.value = found;
        problem.value = undefined;
      },
      (error: unknown) => {
        if (!reading.signal.aborted) problem.value = messageOf(error);
      },
    );
    return () => reading.abort();
  }, [folder, status, run, attempt.value]);
  useEffect(() => {
    const address = new URL(location.href);
    if (opened.value === undefined) return;
    address.searchParams.set('path', opened.value);
    history.replaceState(history.state, '', address);
  }, [opened.value]);
  const list = paths.value;
  const words = filter.value;
  const matches = useMemo(
    () => (words.trim() === '' ? undefined : matchingPaths(list ?? [], words, maxMatches)),
    [list, words],
  );
  const path = opened.value;
  return (
    <>
      <div class="history-head">
        <h2>
          Files
          {list !== undefined && <span class="count"> {list.length.toLocaleString('en-US')}</span>}
        </h2>
        <button type="button" class="small quiet" onClick={() => (attempt.value += 1)}>
          Read again
        </button>
      </div>
      {!isLive && list !== undefined && (
        <p class="quiet-text">The files are as they were at the last pause.</p>
      )}
      {problem.value !== undefined && (
        <RetryProblem text={problem.value} onRetry={() => (attempt.value += 1)} />
      )}
      {list === undefined && problem.value === undefined && (
        <p class="quiet-text" role="status">
          Loading…
        </p>
      )}
      {list?.length === 0 && <p class="quiet-text">The folder has no files.</p>}
      {list !== undefined && list.length > 0 && (
        <div class="file-browser">
          <nav aria-label="Files">
            <input
              type="search"
              aria-label="Find a file"
              placeholder="Find a file"
              value={filter.value}
              onInput={(event) => (filter.value = event.currentTarget.value)}
            />
            {matches === undefined ? (
              <FolderList paths={list} folder="" opened={opened} />
            ) : (
              <ul role="list">
                {matches.map((match) => (
                  <FileButton key={match} path={match} label={match} opened={opened} />
                ))}
              </ul>
            )}
            {matches?.length === 0 && <p class="quiet-text">No path has these words.</p>}
            {matches?.length === maxMatches && (
              <p class="quiet-text">There may be more than these {maxMatches}.</p>
            )}
            {list.length >= maxFiles && (
              <p class="quiet-text">
                The folder has more files than these {maxFiles.toLocaleString('en-US')}.
              </p>
            )}
          </nav>
          {path === undefined ? (
            <p class="quiet-text">Choose a file.</p>
          ) : (
            <FileView
              key={path}
              row={row}
              folder={folder}
              path={path}
              isLive={isLive}
              version={list}
              onComment={commenting(onMessage)}
            />
          )}
        </div>
      )}
    </>
  );
}

export function Files({ row, onMessage }: FilesProps) {
  const folder = row.current.value.conversation?.workspace?.working_dir;
  useEffect(() => scrollTo({ top: 0 }), []);
  if (folder === undefined)
    return (
      <p class="quiet-text">There is no folder with files: the start is not over, or has failed.</p>
    );
  return <Tree row={row} folder={folder} onMessage={onMessage} />;
}
