import type { QuotaRecord } from './wire.ts';

/** The title of a conversation by its id. */
export type TitleOf = (id: string) => string | undefined;

/** The conversations that a start would pause, by title; undefined where it pauses none. */
export function pausedTitles(
  { next_start: next }: QuotaRecord,
  titleOf: TitleOf,
): string | undefined {
  if (next.outcome !== 'pauses') return undefined;
  if (next.pauses_other_owner) return 'a sandbox of another owner';
  const titles = next.pauses.flatMap(({ sandbox_id: sandbox, conversation_ids: ids }) =>
    ids.length === 0 ? [`sandbox ${sandbox}`] : ids.map((id) => `“${titleOf(id) ?? id}”`),
  );
  return titles.length === 0 ? undefined : titles.join(', ');
}

/** The outcome of one more start as a sentence. */
export function forecastOf(quota: QuotaRecord, titleOf: TitleOf, now: number): string {
  const { next_start: next, quotas, waiting } = quota;
  const limit = quotas.find(({ name }) => name === next.quota);
  switch (next.outcome) {
    case 'admitted':
      return limit === undefined
        ? 'No quota limits the start.'
        : `There is room (${limit.active} of ${limit.limit}).`;
    case 'pauses': {
      const titles = pausedTitles(quota, titleOf);
      const waits = next.not_before === null ? 0 : Date.parse(next.not_before) - now;
      const when = waits > 0 ? `, in ${Math.ceil(waits / 60_000)} min` : '';
      return titles === undefined ? next.reason : `Pauses ${titles}${when}.`;
    }
    case 'waits':
      return waiting === 0
        ? next.reason
        : `Waits: ${waiting} ${waiting === 1 ? 'is' : 'are'} ahead of you.`;
    case 'rejected':
      return next.reason;
  }
}
