import type { HistoryEvent } from './history.ts';
import { zipArchive, type ZipFile } from './zip.ts';

/** Maximum characters of an event's id in a file name. */
const maxIdLength = 64;

/** File name as in OpenHands. Agents choose the ids, so `_` replaces unusual characters. */
export const eventFileName = ({ id, position }: Pick<HistoryEvent, 'id' | 'position'>): string =>
  `event_${String(position).padStart(6, '0')}_${id.slice(0, maxIdLength).replaceAll(/[^A-Za-z0-9_-]/g, '_')}.json`;

export interface ExportOptions {
  /** The conversation's record for `meta.json`. The file also contains the number of events. */
  readonly record: object;
  /** Modification time of the files, in milliseconds since 1970. */
  readonly time: number;
}

/**
 * The bytes of a ZIP file with a file for each event, and `meta.json` as the last one. If `events`
 * throws, the ZIP file stays incomplete and the same error is thrown.
 */
export const exportedHistory = (
  events: AsyncIterable<readonly HistoryEvent[]>,
  { record, time }: ExportOptions,
): AsyncGenerator<Buffer, void, undefined> => zipArchive(filesOf(events, record), time);

async function* filesOf(
  parts: AsyncIterable<readonly HistoryEvent[]>,
  record: object,
): AsyncGenerator<readonly ZipFile[], void, undefined> {
  let count = 0;
  for await (const events of parts) {
    count += events.length;
    yield events.map((event) => ({ name: eventFileName(event), content: event.json }));
  }
  const meta = JSON.stringify({ ...record, event_count: count }, undefined, 2);
  yield [{ name: 'meta.json', content: Buffer.from(meta) }];
}
