import type { ServerResponse } from 'node:http';

/** Maximum time in which a client reads nothing of its answer, in milliseconds. */
export const defaultStallMs = 30_000;

/** The text around the items. */
export interface ListFrame {
  readonly head: string;
  readonly tail: string;
}

export const plainFrame: ListFrame = { head: '[', tail: ']' };

/** An item in pieces, which are joined once, with the other items of a response. */
export type Pieces = readonly string[];

export function listText({ head, tail }: ListFrame, items: readonly (string | Pieces)[]): string {
  const all = [head];
  for (const item of items) {
    if (all.length > 1) all.push(',');
    if (typeof item === 'string') all.push(item);
    else all.push(...item);
  }
  all.push(tail);
  return all.join('');
}

const separator = Buffer.from(',');

/** The pieces of a list whose items are JSON in UTF-8: none of them is copied. */
export const listPieces = ({ head, tail }: ListFrame, items: readonly Buffer[]): Buffer[] => [
  Buffer.from(head),
  ...items.flatMap((item, index) => (index === 0 ? [item] : [separator, item])),
  Buffer.from(tail),
];

/**
 * Sends a JSON list item by item, at the pace at which its client reads, so that only the item
 * under way is in memory. The status is sent with the first item, so a later failure ends the
 * connection. Returns the bytes sent.
 */
export async function sendList(
  response: ServerResponse,
  { head, tail }: ListFrame,
  items: AsyncIterable<string>,
): Promise<number> {
  let bytes = 0;
  let before = head;
  for await (const item of items) {
    if (response.destroyed) return bytes;
    if (bytes === 0) begin(response);
    const text = `${before}${item}`;
    bytes += Buffer.byteLength(text);
    if (!response.write(text)) await drained(response);
    before = ',';
  }
  if (bytes === 0) begin(response);
  const rest = bytes === 0 ? `${head}${tail}` : tail;
  response.end(rest);
  return bytes + Buffer.byteLength(rest);
}

function begin(response: ServerResponse): void {
  response.statusCode = 200;
  response.setHeader('content-type', 'application/json');
  response.setTimeout(defaultStallMs, () => response.destroy());
}

/** Resolves when the client has read the written bytes, or has disconnected. */
const drained = (response: ServerResponse): Promise<void> =>
  new Promise((resolve) => {
    const done = () => {
      response.off('drain', done).off('close', done);
      resolve();
    };
    response.on('drain', done).on('close', done);
  });
