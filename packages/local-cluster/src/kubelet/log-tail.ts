import { open } from 'node:fs/promises';

/**
 * Returns the offset in each file at which the last `lines` lines start; undefined for files that
 * contain none of these lines.
 */
export async function startsOfTail(
  files: readonly string[],
  lines: number | undefined,
): Promise<readonly (number | undefined)[]> {
  if (lines === undefined) return files.map(() => 0);
  const starts: (number | undefined)[] = files.map(() => undefined);
  let missing = lines;
  for (let index = files.length - 1; index >= 0 && missing > 0; index -= 1) {
    const { start, found } = await startOfTail(files[index] ?? '', missing);
    starts[index] = start;
    missing -= found;
  }
  return starts;
}

/** Reads backwards, so that the cost depends on the tail and not on the length of the file. */
async function startOfTail(
  path: string,
  lines: number,
): Promise<{ readonly start: number; readonly found: number }> {
  const file = await open(path, 'r');
  try {
    const { size } = await file.stat();
    const block = Buffer.alloc(64 * 1024);
    let found = 0;
    for (let end = size; end > 0;) {
      const from = Math.max(0, end - block.length);
      const { bytesRead } = await file.read(block, 0, end - from, from);
      for (let at = bytesRead - 1; at >= 0; at -= 1) {
        // A newline at the end of the file ends the last line and starts no other.
        if (block[at] !== 0x0a || from + at === size - 1) continue;
        found += 1;
        if (found === lines) return { start: from + at + 1, found };
      }
      end = from;
    }
    return { start: 0, found: size > 0 ? found + 1 : 0 };
  } finally {
    await file.close();
  }
}
