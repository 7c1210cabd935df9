import { type ArchiveAddress, keyOf } from './layout.ts';
import { AgentError } from '../agent/errors.ts';
import { maxIdLength, type AgentEvent, type EventSource, type SourcePage } from './agent-event.ts';
import {
  emptyManifest,
  eventsOf,
  packHead,
  segmentNameOf,
  storedBytesOf,
  type Manifest,
} from './manifest.ts';
import { OpenArchive, type ArchiveObjects } from './open-archive.ts';
import { SegmentBuilder, checksumOf } from './segment-builder.ts';

export interface ExtendOptions extends ArchiveObjects {
  readonly source: EventSource;
  /**
   * Input of the hashes in the names of heads and segments. Each deletion of the archive sets a new
   * salt, because objects of the deleted archive may still exist. Absent: no archive was deleted.
   */
  readonly salt?: string | undefined;
  /** Name of this installation. No clean-up deletes an archive without such a name. */
  readonly installation: string | undefined;
  /** Maximum stored bytes of the archive. The last page may exceed this limit. */
  readonly maxBytes: number;
  /** Number of events after which the call ends. The current page is still added completely. */
  readonly maxEvents: number;
  readonly signal: AbortSignal;
}

export interface Extension {
  /** Name of the new head object; undefined if nothing was added. */
  readonly head: string | undefined;
  /** Total events and stored bytes of the archive. `bytes` does not count replaced heads. */
  readonly events: number;
  readonly bytes: number;
  readonly added: number;
  /**
   * - end: the archive has all events that the agent had at the beginning of the call.
   * - more: the call has added `maxEvents` events, and the agent has more.
   * - limit: the archive has reached `maxBytes`.
   */
  readonly stoppedBy: 'end' | 'more' | 'limit';
}

/**
 * Adds the new events of the agent to the archive after those of `head`. No reader sees these
 * events until the caller replaces the stored name of the head. Only one of two concurrent writers
 * can do so. Objects of a stored head never change, so a late write does no harm.
 *
 * Throws `StoreError`, `ArchiveError` and errors of the source. A repeated call adds the same
 * events.
 */
export async function extendArchive(
  address: ArchiveAddress,
  head: string | undefined,
  options: ExtendOptions,
): Promise<Extension> {
  const { source, maxBytes, maxEvents, signal } = options;
  const archive = await OpenArchive.open(options, address, head, signal);
  const growth = new Growth(options, archive);
  const before = storedBytesOf(archive.manifest);
  const ended = async (stoppedBy: Extension['stoppedBy']): Promise<Extension> => ({
    ...(await growth.store(signal)),
    stoppedBy,
  });
  if (before >= maxBytes || growth.reaches(maxBytes)) return ended('limit');
  for await (const page of newPages(archive, source, signal)) {
    if (page === 'changed') {
      if (growth.added > 0) return ended('more');
      throw new AgentError('malformed', 'The log of the agent has changed while it was read.');
    }
    const added = await growth.add(page.events, signal);
    if (growth.reaches(maxBytes)) return ended('limit');
    // An agent that repeats pages would otherwise never end the read.
    if (added === 0) return ended('end');
    if (growth.added >= maxEvents) return ended('more');
  }
  return ended('end');
}

/** Consecutive pages without a valid event after which the read ends. */
const maxEmptyPages = 10;

/**
 * Reads the pages of the agent's log after the archived events. `changed`: the page does not begin
 * with the requested event, because the agent's volume was replaced after the previous request. The
 * agent then sends its first page, and the next call of `extendArchive` reads the new log.
 */
async function* newPages(
  archive: OpenArchive,
  source: EventSource,
  signal: AbortSignal,
): AsyncGenerator<SourcePage | 'changed'> {
  const { lastId } = archive.manifest;
  const read = (from: string | undefined) => source.page(from, { descending: false, signal });
  let page = await read(lastId);
  if (lastId !== undefined && page.events[0]?.id === lastId)
    page = { ...page, events: page.events.slice(1) };
  else if (lastId !== undefined) {
    const from = await unknownFrom(archive, source, signal);
    if (from === undefined) return;
    page = await read(from);
    if (!isNamed(page, from)) {
      yield 'changed';
      return;
    }
  }
  for (let empty = 0; empty < maxEmptyPages;) {
    empty = page.events.length > 0 ? 0 : empty + 1;
    if (empty === 0) yield page;
    const { next } = page;
    if (next === undefined) return;
    page = await read(next);
    if (!isNamed(page, next)) {
      yield 'changed';
      return;
    }
    if (page.next === next) page = { ...page, next: undefined };
  }
}

/** False if a page begins with another event than requested. Overlong ids are not compared. */
const isNamed = ({ events: [first] }: SourcePage, from: string): boolean =>
  first === undefined || first.id === from || from.length > maxIdLength;

/** The archive during a call of `extendArchive`: complete segments, and one segment that grows. */
class Growth {
  readonly #objects: ArchiveObjects & Pick<ExtendOptions, 'installation'>;
  readonly #address: ArchiveAddress;
  readonly #manifest: Manifest;
  readonly #segments: Manifest['segments'];
  readonly #ids = new Set<string>();
  #builder: SegmentBuilder;
  #lastId: string | undefined;
  #added = 0;

  constructor(
    objects: ArchiveObjects & Pick<ExtendOptions, 'installation' | 'salt'>,
    { address, manifest, tail }: OpenArchive,
  ) {
    this.#objects = objects;
    this.#address = address;
    this.#manifest = manifest.segments.length > 0 ? manifest : emptyManifest(address, objects.salt);
    this.#lastId = manifest.lastId;
    const { codec } = objects;
    const last = manifest.segments.at(-1);
    const isTail = last !== undefined && last.hash === undefined;
    this.#segments = isTail ? manifest.segments.slice(0, -1) : [...manifest.segments];
    this.#builder = isTail
      ? SegmentBuilder.of(codec, address, { segment: last, body: tail }, this.#manifest.salt)
      : new SegmentBuilder(codec, address, eventsOf(manifest), this.#manifest.salt);
  }

  get added(): number {
    return this.#added;
  }

  /** Whether the stored bytes, without the last frame, which may still grow, reach `maxBytes`. */
  reaches(maxBytes: number): boolean {
    return this.#builder.reaches(
      maxBytes - storedBytesOf({ ...this.#manifest, segments: this.#segments }),
    );
  }

  /** Adds events and returns the number of new ones. Stores each complete segment immediately. */
  async add(events: readonly AgentEvent[], signal: AbortSignal): Promise<number> {
    let added = 0;
    for (const event of events) {
      // Repeated ids of an agent must not make the archive grow.
      if (this.#ids.has(event.id) || this.#builder.has(event.id)) continue;
      if (this.#builder.isFullFor(event)) await this.#complete(signal);
      this.#builder.add(event);
      this.#ids.add(event.id);
      this.#lastId = event.id;
      added++;
    }
    this.#added += added;
    return added;
  }

  async store(signal: AbortSignal): Promise<Omit<Extension, 'stoppedBy'>> {
    const added = this.#added;
    if (added === 0) {
      const bytes = storedBytesOf(this.#manifest);
      return { head: undefined, events: eventsOf(this.#manifest), bytes, added };
    }
    const tail = this.#builder.tail();
    const { store, codec, installation } = this.#objects;
    const manifest: Manifest = {
      ...this.#manifest,
      ...(installation === undefined ? {} : { installation }),
      segments: [...this.#segments, tail.segment],
      ...(this.#lastId === undefined ? {} : { lastId: this.#lastId }),
    };
    const { name, body } = packHead(codec, this.#address, manifest, tail.body);
    await store.put(keyOf(this.#address, 'h', name), body, { signal });
    const bytes = storedBytesOf({ ...manifest, segments: this.#segments }) + body.length;
    return { head: name, events: eventsOf(manifest), bytes, added };
  }

  /** Stores an empty head with `installation`, so that clean-ups do not delete new segments. */
  async #begin(signal: AbortSignal): Promise<void> {
    const { store, codec, installation } = this.#objects;
    const manifest = { ...this.#manifest, ...(installation === undefined ? {} : { installation }) };
    const { name, body } = packHead(codec, this.#address, manifest, Buffer.alloc(0));
    await store.put(keyOf(this.#address, 'h', name), body, { signal });
  }

  async #complete(signal: AbortSignal): Promise<void> {
    const { store, codec } = this.#objects;
    const { segment, body } = this.#builder.complete();
    if (eventsOf(this.#manifest) === 0 && this.#segments.length === 0) await this.#begin(signal);
    await store.put(keyOf(this.#address, 's', segmentNameOf(segment)), body, { signal });
    this.#segments.push(segment);
    this.#builder = new SegmentBuilder(
      codec,
      this.#address,
      this.#builder.end,
      this.#manifest.salt,
    );
  }
}

/** Maximum pages that are read backwards. Unknown events on older pages are never archived. */
const maxPages = 100;

/**
 * Id of the oldest event after all archived events. An agent whose volume was restored or replaced
 * does not know the last archived event. The search reads the log backwards until it finds an
 * archived event. Undefined: the archive has all events.
 */
async function unknownFrom(
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
      // An agent that does not know a page sends its first page again.
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

/** The sorted checksums of all ids. Typed arrays need only four bytes for each event. */
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
