import { LRUCache } from 'lru-cache';
import type { ArchiveState } from './layout.ts';
import { findText } from './find-text.ts';
import type { HistoryEvent, HistoryFilter, HistoryQuery, HistoryReader } from './history.ts';
import { newestState } from './stored-archives.ts';
import { readSnapshot } from './workspace-snapshot.ts';
import { eventsOf, type Segment } from './manifest.ts';
import { OpenArchive, type ArchiveObjects } from './open-archive.ts';
import { checksumOf } from './segment-builder.ts';

/** Maximum bytes of the events in a page. A single event may be larger. */
const maxPageBytes = 8 * 1024 * 1024;
const defaultCacheBytes = 16 * 1024 * 1024;
/** Estimated bytes in memory for each segment of a head, and for each checksum. */
const segmentBytes = 1024;
const checksumBytes = 4;
/** Maximum frames that one request to the store reads for a filtered query. */
const framesAtOnce = 8;
/** JSON may write any character as `\u` and its number. */
const escape = Buffer.from('\\u');
const segmentsAtOnce = 8;

export interface HistoryReaderOptions extends ArchiveObjects {
  /** Maximum bytes of cached heads. Default: 16 MiB. */
  readonly cacheBytes?: number;
}

interface Fields {
  readonly id: unknown;
  readonly kind: unknown;
  readonly timestamp: unknown;
}

/** An event whose JSON is parsed only when a field is read. Most pages need no field. */
class ReadEvent implements HistoryEvent {
  readonly position: number;
  readonly json: Buffer;
  #fields: Fields | undefined;

  constructor(position: number, json: Buffer) {
    this.position = position;
    this.json = json;
  }

  get id(): string {
    return String(this.fields.id);
  }

  get fields(): Fields {
    if (this.#fields === undefined) {
      const { id, kind, timestamp } = JSON.parse(this.json.toString()) as Fields;
      this.#fields = { id, kind, timestamp };
    }
    return this.#fields;
  }
}

interface FramePlace {
  readonly segment: Segment;
  readonly index: number;
  /** Number of events in the archive before this frame, and before the next frame. */
  readonly start: number;
  readonly end: number;
}

export function createHistoryReader(options: HistoryReaderOptions): HistoryReader {
  const heads = new LRUCache<string, OpenArchive>({
    maxSize: options.cacheBytes ?? defaultCacheBytes,
    sizeCalculation: ({ tail, manifest }) =>
      tail.length +
      segmentBytes * (manifest.segments.length + 1) +
      (manifest.segments.at(-1)?.words?.length ?? 0) +
      checksumBytes * eventsOf(manifest),
  });

  /** Opens a head, which never changes and can be cached; `keeps`: whether to cache this head. */
  const open = async (
    { namespace, uid, head }: ArchiveState,
    signal?: AbortSignal,
    { keeps = true } = {},
  ): Promise<OpenArchive> => {
    const name = `${namespace}/${uid}/${head}`;
    const known = heads.get(name);
    if (known !== undefined) return known;
    const archive = await OpenArchive.open(options, { namespace, uid }, head, signal);
    if (keeps) heads.set(name, archive);
    return archive;
  };

  return {
    search: async (state, query, signal) => {
      const archive = await open(state, signal);
      const events: ReadEvent[] = [];
      let bytes = 0;
      const start = await startOf(archive, query, signal);
      for await (const event of matching(archive, query, start, signal)) {
        const isFull = events.length > 0 && bytes + event.json.length > maxPageBytes;
        if (events.length >= query.limit || isFull)
          return { events, nextPageId: `${event.id}@${event.position}` };
        events.push(event);
        bytes += event.json.length;
      }
      return { events, nextPageId: null };
    },
    count: async (state, filter, signal) => countOf(await open(state, signal), filter, signal),
    byIds: async function* (state, ids, signal) {
      yield* withIds(await open(state, signal), ids, signal);
    },
    all: async function* (state, from = 0, signal) {
      const archive = await open(state, signal);
      for (const place of placesOf(archive, { from, descending: false })) {
        const events = await readAll(archive, [place], signal);
        yield events.filter(({ position }) => position >= from);
      }
    },
    find: async function* (state, query, before, signal) {
      // A search in all conversations would evict the heads that readers of pages use.
      yield* findText(await open(state, signal, { keeps: false }), query, before, signal);
    },
    newest: (address, expiredTime, signal) => newestState(options, address, expiredTime, signal),
    files: async ({ files, ...state }, signal) =>
      files === undefined ? undefined : readSnapshot(options, state, files, signal),
  };
}

/**
 * Position of the first event of a page. An unknown `pageId` counts as an event that is not
 * archived yet: the page is empty, or with `descending` begins at the newest archived event. A
 * client that read the first pages from the agent, before a pause, thus gets no event twice.
 */
async function startOf(
  archive: OpenArchive,
  { pageId, descending }: HistoryQuery,
  signal?: AbortSignal,
): Promise<number> {
  const end = eventsOf(archive.manifest);
  if (pageId === undefined) return descending ? end - 1 : 0;
  const position = Number(/@([0-9]{1,10})$/.exec(pageId)?.[1] ?? NaN);
  if (position < end) return position;
  return (
    (await archive.locate(pageId.replace(/@[0-9]{1,10}$/, ''), descending, signal)) ??
    (descending ? end - 1 : end)
  );
}

function placesOf(
  archive: OpenArchive,
  { from, descending }: { readonly from: number; readonly descending: boolean },
): FramePlace[] {
  const places = archive.manifest.segments
    .flatMap(placesIn)
    .filter(({ start, end }) => (descending ? start <= from : end > from));
  return descending ? places.reverse() : places;
}

function placesIn(segment: Segment): FramePlace[] {
  let end = segment.start;
  return segment.frames.map(({ events }, index) => {
    const start = end;
    end += events;
    return { segment, index, start, end };
  });
}

/** Matching events from position `from` on, in the order of the query. */
async function* matching(
  archive: OpenArchive,
  { descending, limit, ...filter }: HistoryQuery,
  from: number,
  signal?: AbortSignal,
): AsyncGenerator<ReadEvent> {
  const places = placesOf(archive, { from, descending }).filter(({ segment }) =>
    mayMatch(segment, filter),
  );
  const isCandidate = candidatesOf(filter);
  for (const batch of batchesOf(places, isFiltering(filter) ? Infinity : limit + 1)) {
    const events = await readAll(archive, batch, signal, isCandidate);
    const inOrder = descending ? events.toReversed() : events;
    for (const event of inOrder) {
      const isBehind = descending ? event.position <= from : event.position >= from;
      if (isBehind && (!isFiltering(filter) || isMatch(event, filter))) yield event;
    }
  }
}

/** Groups adjacent frames of one segment. Each group is one read of about `wanted` events. */
function* batchesOf(places: readonly FramePlace[], wanted: number): Generator<FramePlace[]> {
  let batch: FramePlace[] = [];
  let events = 0;
  for (const place of places) {
    const [first] = batch;
    const isFull = batch.length >= framesAtOnce || events >= wanted;
    if (first !== undefined && (isFull || first.segment !== place.segment)) {
      yield batch;
      batch = [];
      events = 0;
    }
    batch.push(place);
    // The query may need only one event of the first frame.
    events += batch.length === 1 ? 1 : place.end - place.start;
  }
  if (batch.length > 0) yield batch;
}

/** Reads frames of one segment. Returns the events that may match, in the order of the log. */
async function readAll(
  archive: OpenArchive,
  batch: readonly FramePlace[],
  signal?: AbortSignal,
  isCandidate: (json: Buffer) => boolean = () => true,
): Promise<ReadEvent[]> {
  const [first] = batch;
  if (first === undefined) return [];
  const indexes = batch.map(({ index }) => index);
  const [low, high] = [Math.min(...indexes), Math.max(...indexes)];
  const frames = await archive.frames(first.segment, low, high + 1, signal);
  return frames.flatMap(({ position, lines }) =>
    lines.flatMap((json, index) =>
      isCandidate(json) ? [new ReadEvent(position + index, json)] : [],
    ),
  );
}

/** The events with these ids, the newest first. The search ends when all ids are found. */
async function* withIds(
  archive: OpenArchive,
  ids: readonly string[],
  signal?: AbortSignal,
): AsyncGenerator<ReadEvent> {
  const wanted = new Set(ids);
  const checksums = new Set(ids.map(checksumOf));
  const segments = archive.manifest.segments.toReversed();
  for (let index = 0; index < segments.length; index += segmentsAtOnce) {
    const found = await Promise.all(
      segments.slice(index, index + segmentsAtOnce).map(async (segment) => {
        const known = await archive.checksums(segment, signal);
        const places = placesIn(segment).map((place) => ({
          ...place,
          ids: known.slice(place.start - segment.start, place.end - segment.start),
        }));
        return places.filter((place) => place.ids.some((checksum) => checksums.has(checksum)));
      }),
    );
    for (const place of found.flat())
      for (const event of await readAll(archive, [place], signal)) {
        if (wanted.delete(event.id)) yield event;
        if (wanted.size === 0) return;
      }
  }
}

const isFiltering = ({ kind, from, before }: HistoryFilter): boolean =>
  kind !== undefined || from !== undefined || before !== undefined;

/** The filter may contain the module before the name of the kind, with dots. */
const kindOf = ({ kind }: HistoryFilter): string | undefined => kind?.split('.').at(-1);

/** Returns a quick test. JSON of a matching event contains the kind, or an escape with `\u`. */
function candidatesOf(filter: HistoryFilter): (json: Buffer) => boolean {
  const kind = kindOf(filter);
  if (kind === undefined || !/^\w+$/.test(kind)) return () => true;
  const word = Buffer.from(kind);
  return (json) => json.includes(word) || json.includes(escape);
}

function isMatch({ fields }: ReadEvent, filter: HistoryFilter): boolean {
  const { from, before } = filter;
  const kind = kindOf(filter);
  const time = typeof fields.timestamp === 'string' ? fields.timestamp : '';
  return (
    (kind === undefined || fields.kind === kind) &&
    (from === undefined || time >= from) &&
    (before === undefined || time < before)
  );
}

function mayMatch(segment: Segment, filter: HistoryFilter): boolean {
  const { from, before } = filter;
  const kind = kindOf(filter);
  if (kind !== undefined && segment.kinds !== undefined && !Object.hasOwn(segment.kinds, kind))
    return false;
  if (segment.from === undefined || segment.to === undefined) return true;
  return (
    (from === undefined || segment.to >= from) && (before === undefined || segment.from < before)
  );
}

/** Whether the filter matches the times of all events of the segment. */
const isWithin = (segment: Segment, { from, before }: HistoryFilter): boolean =>
  (from === undefined && before === undefined) ||
  (segment.from !== undefined &&
    segment.to !== undefined &&
    (from === undefined || segment.from >= from) &&
    (before === undefined || segment.to < before));

/** Number of matching events. Reads a segment only if the head does not contain its number. */
async function countOf(
  archive: OpenArchive,
  filter: HistoryFilter,
  signal?: AbortSignal,
): Promise<number> {
  const kind = kindOf(filter);
  let count = 0;
  for (const segment of archive.manifest.segments) {
    if (!mayMatch(segment, filter)) continue;
    const known = kind === undefined ? segment.events : segment.kinds?.[kind];
    if (known !== undefined && isWithin(segment, filter)) {
      count += known;
      continue;
    }
    for (let index = 0; index < segment.frames.length; index += framesAtOnce) {
      const places = segment.frames
        .map((_, frame) => ({ segment, index: frame, start: 0, end: 0 }))
        .slice(index, index + framesAtOnce);
      const events = await readAll(archive, places, signal, candidatesOf(filter));
      count += events.filter((event) => isMatch(event, filter)).length;
    }
  }
  return count;
}
