import type { ComponentChildren } from 'preact';

export interface Column<T> {
  readonly label: string;
  readonly isNumber?: boolean;
  readonly cell: (item: T) => ComponentChildren;
}

interface DataTableProps<T> {
  /** The id of the section, which links to it have. */
  readonly id: string;
  readonly title: string;
  readonly total: number;
  readonly items: readonly T[];
  readonly keyOf: (item: T) => string;
  /** The first column is the name of each row. */
  readonly columns: readonly Column<T>[];
  /** Shown in the place of the table when it has no rows. */
  readonly empty: ComponentChildren;
  readonly children?: ComponentChildren;
}

/**
 * A section with a table. In small windows each row becomes a block of labelled values; the roles
 * are explicit, because a browser drops those of a table that is laid out otherwise.
 */
export function DataTable<T>(props: DataTableProps<T>) {
  const { id, title, total, items, keyOf, columns, empty, children } = props;
  const [first, ...others] = columns;
  const kind = ({ isNumber = false }: Column<T>) => (isNumber ? 'number' : undefined);
  return (
    <section class="data" id={id} aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>
        {title} <span class="count">{total}</span>
      </h2>
      {items.length === 0 ? (
        <p class="quiet-text">{empty}</p>
      ) : (
        <table role="table" aria-labelledby={`${id}-title`}>
          <thead role="rowgroup">
            <tr role="row">
              {columns.map((column) => (
                <th key={column.label} role="columnheader" scope="col" class={kind(column)}>
                  {column.label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody role="rowgroup">
            {items.map((item) => (
              <tr key={keyOf(item)} role="row">
                {first !== undefined && (
                  <th role="rowheader" scope="row">
                    <div>{first.cell(item)}</div>
                  </th>
                )}
                {others.map((column) => (
                  <td key={column.label} role="cell" class={kind(column)} data-label={column.label}>
                    <div>{column.cell(item)}</div>
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {total > items.length && (
        <p class="quiet-text">
          The first {items.length} of {total}.
        </p>
      )}
      {children}
    </section>
  );
}
