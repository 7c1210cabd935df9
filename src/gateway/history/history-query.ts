import { z } from 'zod';
import { maxIdLength } from '../../archive/agent-event.ts';
import { paging, repeated, timeText } from '../http/fields.ts';
import type { HistoryFilter, HistoryQuery } from '../../archive/history.ts';
import { invalidField } from '../errors/validation.ts';

const eventKind = z
  .string()
  .regex(/^[A-Za-z0-9_.]{1,128}$/, 'must be a word')
  .optional();
export const eventFilters = z.object({
  kind: eventKind,
  kind__eq: eventKind.describe('The same as kind.'),
  source: z.enum(['agent', 'user', 'environment']).optional(),
  timestamp__gte: timeText().optional(),
  timestamp__lt: timeText().optional(),
});
export const eventSearch = eventFilters.extend({
  sort_order: z.enum(['TIMESTAMP', 'TIMESTAMP_DESC']).optional(),
  ...paging,
  page_id: z.string().min(1).max(256).optional().describe('next_page_id of the answer before.'),
});

export const eventIds = z.object({ id: repeated(z.string().min(1).max(maxIdLength)) });

export type EventSearch = z.output<typeof eventSearch>;

/** End of a `next_page_id` of an archive, behind the id of the event. */
const position = /@\d{1,10}$/;

/** The `page_id` for an agent, which knows the ids of its events alone. */
export const agentPageId = (pageId: string): string =>
  position.test(pageId) ? pageId.replace(position, '') : pageId;

const dateTime =
  /^(?<local>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?)(?:\.(?<fraction>\d{1,9}))?(?<offset>Z|[+ -]\d\d:?\d\d)?$/i;
/** Texts before and after every time of an event. */
const [beforeAll, afterAll] = ['0', '9999-12-31T23:59:59.999999'];

/**
 * The time of a query as the agent compares it with the times of its events: in UTC, which is the
 * zone of every agent, as the text of Python's `isoformat` without a zone. An agent drops digits
 * behind the microseconds, and a plus sign may have become a space on its way.
 * @param text As `timeText` accepts it.
 */
export function agentTime(text: string): string {
  const { local = '', fraction = '', offset = 'Z' } = dateTime.exec(text)?.groups ?? {};
  const time = local.length === 10 ? `${local}T00:00:00` : local.replace(' ', 'T');
  const ms = Date.parse(`${time}${offset.replace(' ', '+')}`);
  const inUtc = Number.isFinite(ms) ? new Date(ms).toISOString() : '';
  if (inUtc.startsWith('-') || inUtc === '') return beforeAll;
  if (inUtc.startsWith('+')) return afterAll;
  const microseconds = fraction.slice(0, 6).padEnd(6, '0');
  return `${inUtc.slice(0, 19)}${Number(microseconds) === 0 ? '' : `.${microseconds}`}`;
}

type Filters = Partial<EventSearch>;

/** The filter of a request for an archive, which does not know the sources of events. */
export function historyFilterOf({
  kind,
  kind__eq: kindEq,
  source,
  timestamp__gte: from,
  timestamp__lt: before,
}: Filters): HistoryFilter {
  if (source !== undefined)
    throw invalidField('query.source', 'is a filter for agents whose sandbox runs alone');
  return {
    kind: kindEq ?? kind,
    from: from === undefined ? undefined : agentTime(from),
    before: before === undefined ? undefined : agentTime(before),
  };
}

export const historyQueryOf = ({
  sort_order: order,
  page_id: pageId,
  limit,
  ...filters
}: EventSearch): HistoryQuery => ({
  ...historyFilterOf(filters),
  ...{ descending: order === 'TIMESTAMP_DESC', pageId, limit },
});
