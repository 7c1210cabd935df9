import type { CacheState, Leader, OverviewRecord, Pool, Quota } from './wire.ts';

/** A fault of the installation. `href` links to the section of the page with the details. */
export interface Trouble {
  readonly text: string;
  readonly href: string;
}

const many = (number: number, one: string, more: string): string =>
  `${number} ${number === 1 ? one : more}`;

export const shardName = ({ shard }: Leader): string => (shard === null ? '' : `shard ${shard}`);

function leaderTrouble(leader: Leader): string | undefined {
  if (leader.is_live) return undefined;
  const of = leader.shard === null ? '' : ` of ${shardName(leader)}`;
  return leader.holder === null
    ? `No operator leads${leader.shard === null ? '' : ` ${shardName(leader)}`}: starts and resumes wait.`
    : `The leader${of}, ${leader.holder}, does not renew its Lease.`;
}

export const cacheWord = ({ is_synced: isSynced, is_interrupted: isInterrupted }: CacheState) =>
  !isSynced ? 'Not read yet' : isInterrupted ? 'Interrupted' : 'Current';

function cacheTrouble(cache: CacheState): string | undefined {
  const word = cacheWord(cache);
  if (word === 'Current') return undefined;
  return word === 'Interrupted'
    ? `The watch of ${cache.kind} objects is interrupted: figures may be old.`
    : `The ${cache.kind} objects are not read yet: the right to list them may be missing.`;
}

/** Reasons why a pool is not ready that are no fault, because they are temporary or intended. */
const ordinary: ReadonlySet<string | null> = new Set([
  'Full',
  'Refilling',
  'ScaledToZero',
  'WaitingForRoom',
  null,
]);
export const isPoolInTrouble = ({ is_ready: isReady, reason }: Pool): boolean =>
  isReady === false && !ordinary.has(reason);

/** All faults of the installation, the worst first. A full quota is no fault. */
export function troublesOf(overview: OverviewRecord): readonly Trouble[] {
  const { leaders, caches, templates, pools, quotas } = overview;
  const invalid = templates.items.filter(({ is_valid: isValid }) => isValid === false).length;
  const troubled = pools.items.filter(isPoolInTrouble).length;
  const conflicts = quotas.items.filter(({ conflict }) => conflict !== null).length;
  const found = (href: string, ...texts: readonly (string | undefined | false)[]) =>
    texts.filter((text) => typeof text === 'string').map((text) => ({ href, text }));
  return [
    ...found('#leaders', ...(leaders ?? []).map(leaderTrouble)),
    ...found('#caches', ...caches.map(cacheTrouble)),
    ...found(
      '#templates',
      templates.total === 0 && 'There is no template: no start can succeed.',
      invalid > 0 && `${many(invalid, 'template is', 'templates are')} invalid.`,
    ),
    ...found(
      '#pools',
      troubled > 0 && `${many(troubled, 'pool', 'pools')} can not make warm sandboxes.`,
    ),
    ...found(
      '#quotas',
      conflicts > 0 && `${many(conflicts, 'quota has', 'quotas have')} a conflict.`,
    ),
  ];
}

/** The excess over a limit as text; empty if there is none. */
const aboveLimit = (active: number | null, limit: number): string =>
  active !== null && active > limit ? `, ${active - limit} above it` : '';

/** Active sandboxes of a limit, such as `3 of 10`. After a limit is lowered, more can be active. */
export const ofLimit = (active: number | null, limit: number | null): string =>
  limit === null
    ? String(active ?? '–')
    : `${active ?? '–'} of ${limit}${aboveLimit(active, limit)}`;

/** The use of a quota. If it limits each owner separately, `active` counts all owners. */
export const quotaUse = ({ scope, owner, active, limit }: Quota): string =>
  scope === 'Owner' && owner === null
    ? `${active ?? '–'} in all, ${limit} for each`
    : ofLimit(active, limit);

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** A number of bytes in the largest unit that does not exceed it, such as `12 KiB`. */
export function bytes(value: number): string {
  const power = value < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(value) / 10));
  return `${(value / 1024 ** power).toFixed(power === 0 || value / 1024 ** power >= 10 ? 0 : 1)} ${units[power] ?? ''}`;
}

/** Whether a URL is safe as a link: http or https. */
export const isWebAddress = (text: string): boolean =>
  URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
