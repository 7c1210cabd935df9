import type { Lease } from '@conversation-operator/kube/core';
import { operatorLeaseName, shardLeaseName, shardsOfHolder } from '../../resources/lease-names.ts';
import { wireTime } from '../presenters/time.ts';
import { shortText } from './short-text.ts';
import { maxItems, type OverviewRecord } from './schemas.ts';

type Leader = NonNullable<OverviewRecord['leaders']>[number];

/** How far the clock of a leader may be behind that of the gateway. */
const clockToleranceMs = 5_000;

function leaderOf(shard: number | null, lease: Lease | undefined, now: number): Leader {
  const { holderIdentity = '', renewTime, leaseDurationSeconds = 0 } = lease?.spec ?? {};
  const renewed = Date.parse(renewTime ?? '');
  const isHeld = holderIdentity !== '';
  return {
    shard,
    holder: isHeld ? shortText(holderIdentity) : null,
    renewed_at: Number.isNaN(renewed) ? null : wireTime(new Date(renewed).toISOString()),
    is_live: isHeld && renewed + leaseDurationSeconds * 1000 + clockToleranceMs > now,
  };
}

/** The leader of the operator, or of each of its shards, by their Leases. */
export function leadersOf(
  find: (name: string) => Lease | undefined,
  now: number,
): readonly Leader[] {
  const common = find(operatorLeaseName);
  const shards = shardsOfHolder(common?.spec?.holderIdentity ?? '');
  if (shards === undefined) return [leaderOf(null, common, now)];
  return Array.from({ length: Math.min(shards, maxItems) }, (_, shard) =>
    leaderOf(shard, find(shardLeaseName(operatorLeaseName, shard)), now),
  );
}
