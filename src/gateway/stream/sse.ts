import type { SubjectKind } from './own-records.ts';

/** The events of a stream. Each has the data of a read, `removed` and `snapshot` aside. */
export const eventKinds = [
  'snapshot',
  'conversation',
  'start_task',
  'sandbox',
  'quota',
  'removed',
] as const satisfies readonly (SubjectKind | 'snapshot' | 'quota' | 'removed')[];
export type EventKind = (typeof eventKinds)[number];

/** Why the gateway closes a stream. */
export const closeCodes = ['key-invalid', 'slow-reader', 'stale', 'shutdown', 'max-age'] as const;
export type CloseCode = (typeof closeCodes)[number];

/** Delay before a client connects again, in milliseconds. */
const retryMs = 2000;

export const openingText = `retry: ${retryMs}\n\n`;
/** A comment, which clients ignore and proxies count as traffic. */
export const heartbeatText = ': \n\n';

/** The text of an event. JSON has no line breaks, so the data are one line. */
export const eventText = (id: string, kind: EventKind, json: string): string =>
  `id: ${id}\nevent: ${kind}\ndata: ${json}\n\n`;

/** The last event of a stream. The event has no id, so that the client keeps its last one. */
export const closedText = (code: CloseCode): string =>
  `event: closed\ndata: ${JSON.stringify({ code })}\n\n`;
