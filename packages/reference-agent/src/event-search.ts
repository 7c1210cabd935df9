import type { z } from 'zod/mini';
import type { EventSearch, eventFilter } from './bodies.ts';
import type { EventLog, LogEntry } from './event-log.ts';
import type { AgentEvent } from './events.ts';

type Filter = z.output<typeof eventFilter>;

/**
 * Filters events. Times are compared as texts: neither side has a time zone, and a `Z` or its
 * absence sorts alike.
 */
export function matchingEntries(log: EventLog, filter: Filter): readonly LogEntry[] {
  const kind = filter.kind?.split('.').at(-1);
  const from = filter.timestamp__gte?.replace(/Z$/, '').replace(' ', 'T');
  const before = filter.timestamp__lt?.replace(/Z$/, '').replace(' ', 'T');
  return log.entries.filter(
    (entry) =>
      (kind === undefined || entry.kind === kind) &&
      (filter.source === undefined || entry.source === filter.source) &&
      (from === undefined || entry.timestamp >= from) &&
      (before === undefined || entry.timestamp < before),
  );
}

/**
 * Returns a page of events. `page_id` is the first event of the page; an unknown id selects the
 * first page.
 */
export async function searchEvents(
  log: EventLog,
  search: EventSearch,
): Promise<{ readonly items: readonly AgentEvent[]; readonly next_page_id: string | null }> {
  const found = matchingEntries(log, search);
  const sorted = search.sort_order === 'TIMESTAMP' ? found : found.toReversed();
  const start = Math.max(
    sorted.findIndex(({ id }) => id === search.page_id),
    0,
  );
  const items = await log.read(sorted.slice(start, start + search.limit));
  return { items, next_page_id: sorted[start + search.limit]?.id ?? null };
}
