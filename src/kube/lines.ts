import { TransportError } from './errors.ts';

const newline = 0x0a;

/**
 * Lines of UTF-8 text out of chunks that end anywhere, in the middle of a character too: bytes are put together first and
 * decoded then. What stands behind the last newline comes as a line of its own. Throws a TransportError for a longer line than
 * `maxLineBytes`.
 */
export async function* lines(chunks: AsyncIterable<Uint8Array>, maxLineBytes: number): AsyncGenerator<string, void, undefined> {
  let parts: Uint8Array[] = [];
  let bytes = 0;
  const take = (last: Uint8Array): string => {
    const line = parts.length === 0 ? Buffer.from(last.buffer, last.byteOffset, last.byteLength) : Buffer.concat([...parts, last]);
    parts = [];
    bytes = 0;
    return line.toString('utf8');
  };
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      yield take(chunk.subarray(start, end));
      start = end + 1;
    }
    if (start === chunk.byteLength) continue;
    parts.push(chunk.subarray(start));
    bytes += chunk.byteLength - start;
    if (bytes > maxLineBytes) throw new TransportError(`the server sent a line longer than ${maxLineBytes} bytes`);
  }
  if (bytes > 0) yield take(new Uint8Array());
}
