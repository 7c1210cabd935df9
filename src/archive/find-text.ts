import { setImmediate } from 'node:timers/promises';
import type { FoundEvent, FoundPart } from './history.ts';
import type { FrameLines, OpenArchive } from './open-archive.ts';
import type { Segment } from './manifest.ts';
import { snippetOf, type TextQuery } from './text-fold.ts';
import { visibleTexts } from './agent-event.ts';

const segmentsAtOnce = 8;

/** Searches backwards. Each yielded part needs at most one read of a segment (about 1 MiB). */
export async function* findText(
  archive: OpenArchive,
  query: TextQuery,
  before: number,
  signal?: AbortSignal,
): AsyncGenerator<FoundPart, void, undefined> {
  const segments = archive.manifest.segments.filter(({ start }) => start < before).toReversed();
  for (let at = 0; at < segments.length; at += segmentsAtOnce) {
    const batch = await Promise.all(
      segments
        .slice(at, at + segmentsAtOnce)
        .map(async (segment) => ({ segment, words: await archive.words(segment, signal) })),
    );
    for (const { segment, words } of batch)
      if (words !== undefined && !query.words.every((word) => words.includes(word)))
        yield { from: segment.start, found: [] };
      else yield* findInSegment(archive, segment, { query, before, signal });
  }
}

async function* findInSegment(
  archive: OpenArchive,
  segment: Segment,
  {
    query,
    before,
    signal,
  }: {
    readonly query: TextQuery;
    readonly before: number;
    readonly signal: AbortSignal | undefined;
  },
): AsyncGenerator<FoundPart, void, undefined> {
  const frames = await archive.frames(segment, 0, segment.frames.length, signal);
  for (const frame of frames.toReversed()) {
    if (frame.position >= before) continue;
    // A frame may have 256 KiB of text, so other requests run between two frames.
    await setImmediate();
    signal?.throwIfAborted();
    yield { from: frame.position, found: findInFrame(frame, query, before) };
  }
}

function findInFrame(
  { position, lines }: FrameLines,
  query: TextQuery,
  before: number,
): readonly FoundEvent[] {
  const { asciiWord } = query;
  return lines
    .map((json, index) => ({ json, position: position + index }))
    .filter(
      ({ json, position: at }) =>
        at < before &&
        (asciiWord === undefined || json.toString('latin1').toLowerCase().includes(asciiWord)),
    )
    .flatMap(({ json, position: at }) => foundIn(json, at, query))
    .toReversed();
}

function foundIn(json: Buffer, position: number, query: TextQuery): readonly FoundEvent[] {
  const event = JSON.parse(json.toString()) as Readonly<Record<string, unknown>>;
  for (const text of visibleTexts(event)) {
    const snippet = snippetOf(text, query);
    if (snippet === undefined) continue;
    const { id, kind, timestamp } = event;
    return [
      {
        id: String(id),
        position,
        snippet,
        kind: typeof kind === 'string' ? kind : 'unknown',
        timestamp: typeof timestamp === 'string' ? timestamp : undefined,
      },
    ];
  }
  return [];
}
