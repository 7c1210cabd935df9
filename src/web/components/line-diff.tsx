import { useSignal, type Signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useLayoutEffect, useRef } from 'preact/hooks';
import type { ColouredLines } from '../coloured-lines.ts';
import {
  pairsOf,
  stepsOf,
  type DiffPair,
  type DiffRow,
  type LineDiff,
  type Commented,
} from '../line-diff.ts';
import { lineAt, SourceLine, SourceText } from './file-view.tsx';

interface LineCommentProps {
  readonly path: string;
  readonly line: DiffRow;
  /** The text of the comment, which is kept when the comment moves to another line. */
  readonly text: Signal<string>;
  /** Moves the comment to a line of the new version. Returns false if the line is not shown. */
  readonly onGo: (line: number) => boolean;
  readonly onAdd: (comment: Commented) => void;
  readonly onClose: () => void;
}

/** A form below a line. Its text becomes a part of the next message to the agent. */
function LineComment({ path, line, text, onGo, onAdd, onClose }: LineCommentProps) {
  const isAbsent = useSignal(false);
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  const add = () => {
    if (text.value.trim() === '') return;
    onAdd({ path, line, text: text.value.trim() });
    text.value = '';
    onClose();
  };
  return (
    <form
      class="line-comment"
      onSubmit={(event) => {
        event.preventDefault();
        add();
      }}
      onKeyDown={(event) => {
        if (event.key === 'Escape') onClose();
        else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) add();
      }}
    >
      {line.new === undefined ? (
        <span class="quiet-text">Line {line.old}, which was removed</span>
      ) : (
        <label>
          Line{' '}
          <input
            type="number"
            min={1}
            value={line.new}
            onChange={(event) => (isAbsent.value = !onGo(event.currentTarget.valueAsNumber))}
          />
        </label>
      )}
      {isAbsent.value && (
        <span class="problem" role="alert">
          This line is not shown.
        </span>
      )}
      <textarea
        ref={field}
        aria-label={`Comment on ${path}`}
        rows={2}
        value={text.value}
        onInput={(event) => (text.value = event.currentTarget.value)}
      />
      <button type="submit" class="small primary" aria-disabled={text.value.trim() === ''}>
        Add to the message
      </button>
      <button type="button" class="small quiet" onClick={onClose}>
        Cancel
      </button>
    </form>
  );
}

export interface Colours {
  readonly old?: ColouredLines | undefined;
  readonly new?: ColouredLines | undefined;
}

const signs = { same: ' ', added: '+', removed: '−' } as const;

interface TextProps {
  readonly row: DiffRow;
  readonly colours: Colours;
}

function Text({ row, colours }: TextProps) {
  const pieces =
    row.kind === 'removed' ? lineAt(colours.old, row.old) : lineAt(colours.new, row.new);
  return (
    <td class="diff-text">
      <SourceLine text={row.text} pieces={pieces} />
      {row.missing > 0 && (
        <span class="quiet-text"> … {row.missing.toLocaleString('en-US')} characters more</span>
      )}
    </td>
  );
}

interface RowProps extends TextProps {
  readonly index: number;
}

function Row({ row, colours, index }: RowProps) {
  if (row.kind === 'hunk')
    return (
      <tr class="diff-hunk">
        <td colSpan={4}>{row.text}</td>
      </tr>
    );
  return (
    <tr class={`diff-${row.kind}`} data-index={index}>
      <td class="diff-number">{row.old}</td>
      <td class="diff-number">{row.new}</td>
      <td class="diff-sign">{signs[row.kind]}</td>
      <Text row={row} colours={colours} />
    </tr>
  );
}

interface SideProps {
  readonly row: DiffRow | undefined;
  readonly number: number | undefined;
  readonly colours: Colours;
}

const Side = ({ row, number, colours }: SideProps) =>
  row === undefined ? (
    <>
      <td class="diff-number" />
      <td class="diff-sign" />
      <td class="diff-none" />
    </>
  ) : (
    <>
      <td class="diff-number">{number}</td>
      <td class="diff-sign">{row.kind === 'hunk' ? ' ' : signs[row.kind]}</td>
      <Text row={row} colours={colours} />
    </>
  );

interface PairProps {
  readonly pair: DiffPair;
  readonly colours: Colours;
  readonly index: number;
}

function Pair({ pair: { old, new: now }, colours, index }: PairProps) {
  if (old?.kind === 'hunk')
    return (
      <tr class="diff-hunk">
        <td colSpan={6}>{old.text}</td>
      </tr>
    );
  return (
    <tr
      class={`${old?.kind === 'removed' ? 'diff-removes' : ''} ${now?.kind === 'added' ? 'diff-adds' : ''}`}
      data-index={index}
    >
      <Side row={old} number={old?.old} colours={colours} />
      <Side row={now} number={now?.new} colours={colours} />
    </tr>
  );
}

/** One row of a unified diff, or of a diff with both versions side by side. */
type AnyRow = DiffRow | DiffPair;
const isUnified = (row: AnyRow): row is DiffRow => 'kind' in row;

interface StepProps {
  readonly rows: readonly AnyRow[];
  /** Index of the first row in the whole table. */
  readonly first: number;
  readonly colours: Colours;
  /** The content below the row with this index. */
  readonly below?: { readonly index: number; readonly content: ComponentChildren };
}

const Step = ({ rows, first, colours, below }: StepProps) => (
  <tbody>
    {rows.map((row, place) => {
      const index = first + place;
      const element = isUnified(row) ? (
        <Row key={index} row={row} colours={colours} index={index} />
      ) : (
        <Pair key={index} pair={row} colours={colours} index={index} />
      );
      if (below?.index !== index) return element;
      return [
        element,
        <tr key="below" class="diff-below">
          <td colSpan={6}>{below.content}</td>
        </tr>,
      ];
    })}
  </tbody>
);

/** The line of a row: the new line if there is one, else the old line; undefined for a hunk. */
function lineOf(row: AnyRow | undefined): DiffRow | undefined {
  const line = row === undefined || isUnified(row) ? row : (row.new ?? row.old);
  return line?.kind === 'hunk' ? undefined : line;
}

/** The texts of a row, which determine its number of elements. */
const textsOf = (row: AnyRow): readonly string[] =>
  isUnified(row)
    ? [row.text]
    : [row.old, row.new].flatMap((side) => (side === undefined ? [] : [side.text]));

/** Whether both are the same line. The old number counts only for a removed line. */
const isSameLine = (one: DiffRow | undefined, other: DiffRow): boolean =>
  one?.text === other.text &&
  one.new === other.new &&
  (other.new !== undefined || one.old === other.old);

interface LineDiffTableProps {
  readonly path: string;
  readonly diff: LineDiff;
  readonly colours?: Colours;
  /** Whether both versions are side by side. */
  readonly isSplit?: boolean;
  /** Receives a comment on a line. Without this function, lines can not have comments. */
  readonly onComment?: ((comment: Commented) => void) | undefined;
}

const noColours: Colours = {};

/**
 * The lines of a diff or of a file, in a scrollable frame. Changed lines have signs in addition to
 * colours. A click on a line number opens a comment. For the keyboard, there is a button.
 */
export function LineDiffTable({
  path,
  diff: { rows: unified, note, hidden },
  colours = noColours,
  isSplit = false,
  onComment,
}: LineDiffTableProps) {
  const shown = useSignal(1);
  /** The commented line itself, because its index changes with the view and with each read. */
  const commented = useSignal<DiffRow | undefined>(undefined);
  const text = useSignal('');
  const rows = useMemo<readonly AnyRow[]>(
    () => (isSplit ? pairsOf(unified) : unified),
    [unified, isSplit],
  );
  const { steps: parts, hidden: tooMuch } = useMemo(() => stepsOf(rows, textsOf), [rows]);
  const firsts = useMemo(() => {
    let first = 0;
    return parts.map((part) => (first += part.length) - part.length);
  }, [parts]);
  // Preact does not render an element again if it is the same object as before.
  const steps = useMemo(
    () =>
      parts.map((part, place) => (
        <Step key={place} rows={part} first={firsts[place] ?? 0} colours={colours} />
      )),
    [parts, colours],
  );
  const isWhole = shown.value >= steps.length;
  useEffect(() => {
    if (isWhole) return undefined;
    const timer = setTimeout(() => (shown.value += 1));
    return () => clearTimeout(timer);
  }, [isWhole, shown.value]);
  const line = commented.value;
  const found = line === undefined ? -1 : rows.findIndex((row) => isSameLine(lineOf(row), line));
  const index = found < 0 ? undefined : found;
  const open = (next: number) => {
    if (onComment !== undefined) commented.value = lineOf(rows[next]) ?? commented.value;
  };
  const comment = line !== undefined && onComment !== undefined && (
    <LineComment
      path={path}
      line={line}
      text={text}
      onGo={(number) => {
        const next = rows.findIndex((row) => lineOf(row)?.new === number);
        open(next);
        return next >= 0;
      }}
      onAdd={onComment}
      onClose={() => (commented.value = undefined)}
    />
  );
  const visible = steps.slice(0, shown.value).map((step, place) => {
    const [first = 0, part = []] = [firsts[place], parts[place]];
    if (index === undefined || comment === false) return step;
    if (index < first || index >= first + part.length) return step;
    const below = { index, content: comment };
    return <Step key={place} rows={part} first={first} colours={colours} below={below} />;
  });
  const missing = hidden + tooMuch;
  return (
    <>
      {note !== undefined && <p class="quiet-text">{note}</p>}
      {rows.length > 0 && (
        <div
          class={`diff${isSplit ? ' diff-split' : ''}${onComment === undefined ? '' : ' diff-open'}`}
          role="group"
          tabIndex={0}
          aria-label={`Lines of ${path}`}
          onClick={({ target }) => {
            const cell = target instanceof Element ? target.closest('.diff-number') : null;
            const place = cell?.closest('tr')?.dataset['index'];
            if (place !== undefined) open(Number(place));
          }}
        >
          <table>
            {isSplit && (
              <colgroup>
                {['number', 'sign', 'text', 'number', 'sign', 'text'].map((kind, place) => (
                  <col key={place} class={`column-${kind}`} />
                ))}
              </colgroup>
            )}
            <thead class="unseen">
              <tr>
                {(isSplit
                  ? ['Old line', 'Sign', 'Old text', 'New line', 'Sign', 'New text']
                  : ['Old line', 'New line', 'Sign', 'Text']
                ).map((name, place) => (
                  <th key={place} scope="col">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            {visible}
          </table>
        </div>
      )}
      {comment !== false && index === undefined && (
        <>
          <p class="quiet-text">
            The line of this comment has changed since: <SourceText>{line.text}</SourceText>
          </p>
          {comment}
        </>
      )}
      {missing > 0 && (
        <p class="quiet-text">{missing.toLocaleString('en-US')} more lines are not shown.</p>
      )}
      {onComment !== undefined && rows.length > 0 && line === undefined && (
        <button
          type="button"
          class="small quiet"
          onClick={() => {
            const changed = unified.findIndex(({ kind }) => kind === 'added');
            const number = unified[Math.max(changed, 0)]?.new;
            const at = rows.findIndex((row) => lineOf(row)?.new === number && number !== undefined);
            open(at >= 0 ? at : rows.findIndex((row) => lineOf(row) !== undefined));
          }}
        >
          Comment on a line
        </button>
      )}
    </>
  );
}
