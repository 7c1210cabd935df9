import type { EventSource } from './event-source.ts';
import type { OpenArchive } from './open-archive.ts';
import { checksumOf } from './segment-builder.ts';

/** Maximum pages that are read backwards. Older events that the archive lacks are given up. */
const maxPages = 100;

/**
 * The oldest event of an agent behind everything that the archive has, for an agent that does not
 * know the last archived event: its volume was restored, or replaced. Undefined: the archive has
 * everything. The search reads the log backwards, until it finds an archived event.
 */
export async function unknownFrom(
  archive: OpenArchive,
  source: EventSource,
  signal: AbortSignal,
): Promise<string | undefined> {
  const known = await allChecksums(archive, signal);
  const seen = new Set<string>();
  let oldest: string | undefined;
  let from: string | undefined;
  for (let pages = 0; pages < maxPages; pages++) {
    const { events, next } = await source.page(from, { descending: true, signal });
    for (const { id } of events) {
      // An agent that does not know a page answers with the first one again.
      if (seen.has(id)) return oldest;
      if (known.has(checksumOf(id)) && (await archive.locate(id, true, signal)) !== undefined)
        return oldest;
      seen.add(id);
      oldest = id;
    }
    if (next === undefined || next === from) return oldest;
    from = next;
  }
  return oldest;
}

/** Four bytes for each event, and no object. */
async function allChecksums(
  archive: OpenArchive,
  signal: AbortSignal,
): Promise<{ has(checksum: number): boolean }> {
  const parts: Uint32Array[] = [];
  for (const segment of archive.manifest.segments)
    parts.push(Uint32Array.from(await archive.checksums(segment, signal)).sort());
  return { has: (checksum) => parts.some((part) => isIn(part, checksum)) };
}

function isIn(sorted: Uint32Array, checksum: number): boolean {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? 0) < checksum) low = middle + 1;
    else high = middle;
  }
  return sorted[low] === checksum;
}
