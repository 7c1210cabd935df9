import { open } from 'node:fs/promises';

/** Where in each file the last `lines` lines begin; undefined for files that hold none of them. */
export async function startsOfTail(files: readonly string[], lines: number | undefined): Promise<readonly (number | undefined)[]> {
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

/** Reads backwards, so that a long file costs no more than its tail. */
async function startOfTail(path: string, lines: number): Promise<{ readonly start: number; readonly found: number }> {
  const file = await open(path, 'r');
  try {
    const { size } = await file.stat();
    const block = Buffer.alloc(64 * 1024);
    let found = 0;
    for (let end = size; end > 0;) {
      const from = Math.max(0, end - block.length);
      const { bytesRead } = await file.read(block, 0, end - from, from);
      for (let at = bytesRead - 1; at >= 0; at -= 1) {
        // The newline at the very end closes the last line; it begins none.
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
