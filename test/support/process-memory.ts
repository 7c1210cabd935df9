import { closeSync, openSync, readSync } from 'node:fs';
import { processFile } from './process-file.ts';

const chunkBytes = 16 * 1024 * 1024;

/**
 * Whether the memory of a process has one of the texts in bytes or in UTF-16, as Node stores texts.
 * Throws where the memory can not be read, as nothing would be found there.
 */
export function memoryHas(pid: number, ...texts: readonly string[]): boolean {
  const forms = texts.flatMap((text) => [Buffer.from(text, 'latin1'), Buffer.from(text, 'utf16le')]);
  const overlap = Math.max(...forms.map(({ length }) => length));
  const memory = openSync(`/proc/${pid}/mem`, 'r');
  const chunk = Buffer.alloc(chunkBytes + overlap);
  let readBytes = 0;
  try {
    for (const { from, to } of writableRanges(pid)) {
      for (let at = from; at < to; at += BigInt(chunkBytes)) {
        const length = Number(to - at > BigInt(chunk.length) ? BigInt(chunk.length) : to - at);
        const bytes = chunk.subarray(0, readPart(memory, chunk, length, at));
        readBytes += bytes.length;
        if (forms.some((form) => bytes.includes(form))) return true;
      }
    }
  } finally {
    closeSync(memory);
  }
  if (readBytes < chunkBytes) throw new Error(`hardly any memory of ${pid} could be read`);
  return false;
}

interface Range {
  readonly from: bigint;
  readonly to: bigint;
}

const writableRanges = (pid: number): readonly Range[] =>
  [...processFile(pid, 'maps').matchAll(/^([0-9a-f]+)-([0-9a-f]+) rw/gm)].map(
    ([, from = '', to = '']) => ({ from: BigInt(`0x${from}`), to: BigInt(`0x${to}`) }),
  );

/** A process changes its ranges while they are read: one that is gone has no bytes. */
function readPart(memory: number, chunk: Buffer, length: number, at: bigint): number {
  try {
    return readSync(memory, chunk, 0, length, at);
  } catch {
    return 0;
  }
}
