import { TransportError } from './errors.ts';

const newline = 0x0a;

/**
 * Whole lines out of chunks of UTF-8 that end anywhere, in the middle of a character too, all the lines that lie within a chunk at
 * once, so that they can be decoded at once. Each buffer ends with a newline, except that of the bytes behind the last one. Throws a
 * TransportError for a longer line than `maxLineBytes`.
 */
export async function* wholeLines(chunks: AsyncIterable<Uint8Array>, maxLineBytes: number): AsyncGenerator<Buffer, void, undefined> {
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
    if (bytes > maxLineBytes) throw new TransportError(`the server sent a line longer than ${maxLineBytes} bytes`);
  }
  if (bytes > 0) yield Buffer.concat(parts);
}

/** The lines of a text, without their newlines, empty ones left out. They are slices: whoever keeps one keeps the text. */
export function* linesOf(text: string): Generator<string, void, undefined> {
  let start = 0;
  for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
    if (end > start) yield text.slice(start, end);
    start = end + 1;
  }
  if (start < text.length) yield text.slice(start);
}

/** The same lines of bytes, as parts of these. */
export function* linesIn(bytes: Buffer): Generator<Buffer, void, undefined> {
  let start = 0;
  for (let end = bytes.indexOf(newline); end !== -1; end = bytes.indexOf(newline, start)) {
    if (end > start) yield bytes.subarray(start, end);
    start = end + 1;
  }
  if (start < bytes.length) yield bytes.subarray(start);
}
