import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { partsOf, type DiffRow, type LineDiff } from '../line-diff.ts';
import { InOrder } from './in-order.tsx';

/** A text of a file in the order of its characters, with a mark for each invisible one. */
export const SourceText = ({ children }: { readonly children: string }) => (
  <>
    {partsOf(children).map((part, index) =>
      index % 2 === 1 ? (
        <span key={index} class="unseen-character">
          {part}
        </span>
      ) : (
        part !== '' && <InOrder key={index}>{part}</InOrder>
      ),
    )}
  </>
);

const signs = { same: ' ', added: '+', removed: '−' } as const;

function Row({ row }: { readonly row: DiffRow }) {
  if (row.kind === 'hunk')
    return (
      <tr class="diff-hunk">
        <td colSpan={4}>{row.text}</td>
      </tr>
    );
  return (
    <tr class={`diff-${row.kind}`}>
      <td class="diff-number">{row.old}</td>
      <td class="diff-number">{row.new}</td>
      <td class="diff-sign">{signs[row.kind]}</td>
      <td class="diff-text">
        {/* Most lines need no element of their own. */}
        {/^[\t -~]*$/.test(row.text) ? row.text : <SourceText>{row.text}</SourceText>}
        {row.missing > 0 && (
          <span class="quiet-text"> … {row.missing.toLocaleString('en-US')} characters more</span>
        )}
      </td>
    </tr>
  );
}

/** Rows that are added in one go, so that the page reacts in between. */
const rowsPerStep = 250;

const Rows = ({ rows }: { readonly rows: readonly DiffRow[] }) => (
  <tbody>
    {rows.map((row, index) => (
      <Row key={index} row={row} />
    ))}
  </tbody>
);

interface LineDiffTableProps {
  readonly path: string;
  readonly diff: LineDiff;
}

/** The lines of a diff, which scroll in their frame. Signs mark them as well as colours. */
export function LineDiffTable({ path, diff: { rows, note, hidden } }: LineDiffTableProps) {
  const shown = useSignal(1);
  // Elements that are the same are not rendered again.
  const steps = useMemo(
    () =>
      Array.from({ length: Math.ceil(rows.length / rowsPerStep) }, (_, index) => (
        <Rows key={index} rows={rows.slice(index * rowsPerStep, (index + 1) * rowsPerStep)} />
      )),
    [rows],
  );
  const isWhole = shown.value >= steps.length;
  useEffect(() => {
    if (isWhole) return undefined;
    const timer = setTimeout(() => (shown.value += 1));
    return () => clearTimeout(timer);
  }, [isWhole, shown.value]);
  return (
    <>
      {note !== undefined && <p class="quiet-text">{note}</p>}
      {rows.length > 0 && (
        <div class="diff" role="group" tabIndex={0} aria-label={`Diff of ${path}`}>
          <table>
            <thead class="unseen">
              <tr>
                <th scope="col">Old line</th>
                <th scope="col">New line</th>
                <th scope="col">Sign</th>
                <th scope="col">Text</th>
              </tr>
            </thead>
            {steps.slice(0, shown.value)}
          </table>
        </div>
      )}
      {hidden > 0 && (
        <p class="quiet-text">{hidden.toLocaleString('en-US')} more lines are not shown.</p>
      )}
    </>
  );
}
