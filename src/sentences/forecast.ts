import type { QuotaRecord } from '../gateway/quota/quota-record.ts';

export type TitleOf = (id: string) => string | undefined;

/** The titles of the conversations that a start would pause; undefined if there are none. */
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

const ordinals = new Intl.PluralRules('en', { type: 'ordinal' });
const endings: Readonly<Record<string, string>> = { one: 'st', two: 'nd', few: 'rd' };
const ordinal = (position: number): string =>
  `${position}${endings[ordinals.select(position)] ?? 'th'}`;

/**
 * Position of a waiting sandbox in the queue of its owner, the full quota, and how the next slot
 * becomes free; undefined if the record does not name the sandbox.
 */
export function placeOf(
  { queue, waiting, quotas, active }: QuotaRecord,
  sandboxId: string,
): string | undefined {
  const position = queue.indexOf(sandboxId) + 1;
  if (position === 0) return undefined;
  // If an owner's quota and the namespace's quota are full, the text names the quota of the owner.
  const allFull = quotas.filter((quota) => quota.active >= quota.limit);
  const full = allFull.find(({ scope }) => scope === 'Owner') ?? allFull[0];
  const place = `${ordinal(position)} of ${waiting}${full === undefined ? '' : `, quota ${full.name}`}.`;
  const mine = active === 1 ? 'your running one' : `one of your ${active} running ones`;
  if (full === undefined) return place;
  return `${place} Next place when ${full.scope === 'Owner' ? mine : 'one of all owners'} ends or is paused.`;
}

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
        : `${next.reason} ${waiting} ${waiting === 1 ? 'is' : 'are'} ahead of you.`;
    case 'rejected':
      return next.reason;
  }
}
