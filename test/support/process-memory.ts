import { closeSync, openSync, readSync } from 'node:fs';
import { processFile } from './process-file.ts';

const pageBytes = 4096;
const entryBytes = 8;
const chunkPages = 4096;
const entriesAtOnce = 131_072;

/**
 * Whether the memory of a process has one of the texts in bytes or in UTF-16, as Node stores texts.
 * Throws where the memory can not be read, as nothing would be found there.
 */
export function memoryHas(pid: number, ...texts: readonly string[]): boolean {
  const forms = texts.flatMap((text) => [
    Buffer.from(text, 'latin1'),
    Buffer.from(text, 'utf16le'),
  ]);
  const overlap = Math.max(...forms.map(({ length }) => length));
  const memory = openSync(`/proc/${pid}/mem`, 'r');
  const pagemap = openSync(`/proc/${pid}/pagemap`, 'r');
  // The end of a chunk stays before the next one, so that a text across both is found.
  const chunk = Buffer.alloc(overlap + chunkPages * pageBytes);
  let kept = 0;
  let nextPage = -1;
  let pages = 0;
  let readPages = 0;
  try {
    for (const { page, count } of presentPages(pid, pagemap)) {
      pages += count;
      if (page !== nextPage) kept = 0;
      const bytes = readPart(
        memory,
        chunk.subarray(kept, kept + count * pageBytes),
        page * pageBytes,
      );
      readPages += bytes / pageBytes;
      const filled = chunk.subarray(0, kept + bytes);
      if (forms.some((form) => filled.includes(form))) return true;
      kept = Math.min(overlap, filled.length);
      filled.copy(chunk, 0, filled.length - kept);
      nextPage = page + count;
    }
  } finally {
    closeSync(memory);
    closeSync(pagemap);
  }
  if (pages === 0 || readPages < pages / 2)
    throw new Error(`${readPages} of ${pages} pages of ${pid} could be read`);
  return false;
}

interface Pages {
  readonly page: number;
  readonly count: number;
}

/** Runs of at most `chunkPages` writable pages that have been used: a process reserves many more. */
function* presentPages(pid: number, pagemap: number): Generator<Pages> {
  const entries = Buffer.alloc(entriesAtOnce * entryBytes);
  for (const { from, to } of usedRanges(pid))
    for (let page = from; page < to; page += entriesAtOnce) {
      const length = Math.min(entriesAtOnce, to - page) * entryBytes;
      const count = readPart(pagemap, entries.subarray(0, length), page * entryBytes) / entryBytes;
      // The highest two bits say that a page is in memory, or has been swapped out.
      const isUsed = (index: number): boolean =>
        index < count && (entries[index * entryBytes + 7] ?? 0) >= 0x40;
      for (let index = 0; index < count; index++) {
        if (!isUsed(index)) continue;
        const first = index;
        while (index < first + chunkPages && isUsed(index)) index++;
        yield { page: page + first, count: index - first };
        index--;
      }
    }
}

/** Writable ranges of pages, from the first page to the one after the last. */
const usedRanges = (pid: number): readonly { readonly from: number; readonly to: number }[] =>
  processFile(pid, 'smaps')
    .split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m)
    .filter((range) => /^(Rss|Swap):\s*[1-9]/m.test(range))
    .flatMap((range) => {
      const [, from = '', to = ''] = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(range) ?? [];
      const pageOf = (address: string): number => Number.parseInt(address, 16) / pageBytes;
      return from === '' ? [] : { from: pageOf(from), to: pageOf(to) };
    });

/** Bytes that were read. A process changes its ranges meanwhile: one that is gone has no bytes. */
function readPart(file: number, into: Buffer, position: number): number {
  try {
    return readSync(file, into, 0, into.length, position);
  } catch {
    return 0;
  }
}
