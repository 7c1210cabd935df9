/** The rows of one group, which all have the same height. */
export interface RowBlock {
  readonly count: number;
  readonly rowHeight: number;
}

/** The rows `first` to `last - 1`, which are near the visible part. */
export interface RowWindow {
  readonly first: number;
  readonly last: number;
}

/** Visible rows of each block, plus `overscan` pixels. Positions start at the first heading. */
export function rowWindows(
  blocks: readonly RowBlock[],
  view: {
    readonly top: number;
    readonly height: number;
    readonly headingHeight: number;
    readonly overscan: number;
  },
): readonly RowWindow[] {
  const [from, to] = [view.top - view.overscan, view.top + view.height + view.overscan];
  let start = 0;
  return blocks.map(({ count, rowHeight }) => {
    start += view.headingHeight;
    const within = (row: number) => Math.min(count, Math.max(0, row));
    const first = within(Math.floor((from - start) / rowHeight));
    const last = within(Math.ceil((to - start) / rowHeight));
    start += count * rowHeight;
    return { first, last };
  });
}
