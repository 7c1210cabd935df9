import type { ServerResponse } from 'node:http';
import { sendChunks, type SendChunksOptions } from './send-chunks.ts';

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
 * Sends a JSON list item by item, at the pace at which its client reads, as `sendChunks` does.
 * Returns the bytes sent.
 */
export function sendList(
  response: ServerResponse,
  frame: ListFrame,
  items: AsyncIterable<string>,
  clock: SendChunksOptions['clock'],
): Promise<number> {
  return sendChunks(response, listChunks(frame, items), {
    clock,
    begin: () => {
      response.statusCode = 200;
      response.setHeader('content-type', 'application/json');
    },
  });
}

async function* listChunks({ head, tail }: ListFrame, items: AsyncIterable<string>) {
  let before = head;
  for await (const item of items) {
    yield `${before}${item}`;
    before = ',';
  }
  yield before === head ? `${head}${tail}` : tail;
}
