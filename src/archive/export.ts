import type { HistoryEvent } from './history.ts';
import { zipArchive, type ZipFile } from './zip.ts';

/** Maximum characters of an event's id in the name of a file. */
const maxIdLength = 64;

/** File name of an event, as in OpenHands; agents choose ids, so other characters become `_`. */
export const eventFileName = ({ id, position }: Pick<HistoryEvent, 'id' | 'position'>): string =>
  `event_${String(position).padStart(6, '0')}_${id.slice(0, maxIdLength).replaceAll(/[^A-Za-z0-9_-]/g, '_')}.json`;

export interface ExportOptions {
  /** The record of the conversation, for `meta.json`, which has the number of events too. */
  readonly record: object;
  /** Time of the files, in milliseconds since 1970. */
  readonly time: number;
}

/**
 * The bytes of a ZIP archive with a file for each event, and at its end `meta.json`. Fails with
 * what the events throw, before the archive is complete.
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
