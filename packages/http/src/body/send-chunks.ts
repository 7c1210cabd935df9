import type { ServerResponse } from 'node:http';
import type { Clock } from '@conversation-operator/base/clock';
import { ClientPace } from '../limits/slow-clients.ts';

/** Maximum time in which a client reads nothing of its response, in milliseconds. */
export const defaultStallMs = 30_000;

export interface SendChunksOptions {
  readonly clock: Pick<Clock, 'after' | 'monotonic'>;
  /** Sets the status and the headers before the first chunk is written. */
  readonly begin: () => void;
}

/**
 * Sends a body in chunks at the pace of the client, so that only one chunk is in memory. The status
 * is sent with the first chunk, so a later failure closes the connection. Disconnects a client that
 * reads nothing for `defaultStallMs`, or reads more slowly than `ClientPace` demands. Returns the
 * number of bytes sent.
 */
export async function sendChunks(
  response: ServerResponse,
  chunks: AsyncIterable<string | Buffer>,
  { clock, begin }: SendChunksOptions,
): Promise<number> {
  let bytes = 0;
  const { socket } = response;
  const pace = new ClientPace({
    clock,
    moved: () => socket?.bytesWritten ?? 0,
    tooSlow: () => response.destroy(),
  });
  try {
    for await (const chunk of chunks) {
      if (response.destroyed) return bytes;
      if (bytes === 0) {
        begin();
        // Without this, a failure of the next chunk would discard the headers and the first chunk.
        response.flushHeaders();
        response.setTimeout(defaultStallMs, () => response.destroy());
      }
      bytes += Buffer.byteLength(chunk);
      if (!response.write(chunk)) await pace.during(() => drained(response));
    }
    response.end();
    return bytes;
  } finally {
    pace.end();
  }
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

export interface ListFrame {
  readonly head: string;
  readonly tail: string;
}

export const plainFrame: ListFrame = { head: '[', tail: ']' };

export const listText = ({ head, tail }: ListFrame, items: readonly string[]): string =>
  `${head}${items.join(',')}${tail}`;

const separator = Buffer.from(',');

/** Returns the pieces of a JSON list, whose items are JSON in UTF-8. No item is copied. */
export const listPieces = ({ head, tail }: ListFrame, items: readonly Buffer[]): Buffer[] => [
  Buffer.from(head),
  ...items.flatMap((item, index) => (index === 0 ? [item] : [separator, item])),
  Buffer.from(tail),
];

/** Sends a JSON list with `sendChunks`. Returns the number of bytes sent. */
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
