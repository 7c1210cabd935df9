import { TransportError } from './errors.ts';

const newline = 0x0a;

/**
 * Yields whole lines from chunks of UTF-8 that may end anywhere, even within a character. Each
 * buffer holds all lines that lie within one chunk, so that the reader decodes them at once, and
 * ends with a newline, except for the bytes after the last newline. Throws a TransportError for a
 * line longer than `maxLineBytes`.
 */
export async function* wholeLines(
  chunks: AsyncIterable<Uint8Array>,
  maxLineBytes: number,
): AsyncGenerator<Buffer, void, undefined> {
  let parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    let start = 0;
    if (bytes > 0) {
      start = chunk.indexOf(newline) + 1;
      if (start > 0) {
        const line = Buffer.concat([...parts, chunk.subarray(0, start)]);
        parts = [];
        bytes = 0;
        yield line;
      }
    }
    const end = chunk.lastIndexOf(newline) + 1;
    if (end > start) yield Buffer.from(chunk.buffer, chunk.byteOffset + start, end - start);
    if (end === chunk.byteLength) continue;
    parts.push(chunk.subarray(end));
    bytes += chunk.byteLength - end;
    if (bytes > maxLineBytes)
      throw new TransportError(`the server sent a line longer than ${maxLineBytes} bytes`);
  }
  if (bytes > 0) yield Buffer.concat(parts);
}

/**
 * Yields the lines of a text without newlines and without empty lines. The lines are slices: a
 * retained line retains the whole text.
 */
export function* linesOf(text: string): Generator<string, void, undefined> {
  let start = 0;
  for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
    if (end > start) yield text.slice(start, end);
    start = end + 1;
  }
  if (start < text.length) yield text.slice(start);
}

/** Yields the same lines as views of the bytes. */
export function* linesIn(bytes: Buffer): Generator<Buffer, void, undefined> {
  let start = 0;
  for (let end = bytes.indexOf(newline); end !== -1; end = bytes.indexOf(newline, start)) {
    if (end > start) yield bytes.subarray(start, end);
    start = end + 1;
  }
  if (start < bytes.length) yield bytes.subarray(start);
}
