import { rowWindows } from '../../../src/web/row-window.ts';

const view = { height: 100, headingHeight: 40, overscan: 20 };
/** Rows of the first block are from 40 to 140, those of the second from 180 to 50,180. */
const blocks = [
  { count: 2, rowHeight: 50 },
  { count: 1000, rowHeight: 50 },
];
const windows = (top: number) => rowWindows(blocks, { ...view, top });

it.each([
  ['at the top', 0, { first: 0, last: 2 }, { first: 0, last: 0 }],
  ['between the blocks', 100, { first: 0, last: 2 }, { first: 0, last: 1 }],
  ['in the second block', 5180, { first: 2, last: 2 }, { first: 99, last: 103 }],
  ['at the end', 50_080, { first: 2, last: 2 }, { first: 997, last: 1000 }],
  ['beyond the end', 60_000, { first: 2, last: 2 }, { first: 1000, last: 1000 }],
])('shows the rows near the visible part %s', (_where, top, first, second) => {
  expect(windows(top)).toEqual([first, second]);
});

it('has nothing to show without blocks', () => {
  expect(rowWindows([], { ...view, top: 0 })).toEqual([]);
});
