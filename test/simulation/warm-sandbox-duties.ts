import { ownerRule, quotaRules } from '../../src/quota/rules.ts';
import type { Sandbox } from '../../src/resources/sandbox.ts';
import { shouldRun } from '../../src/status/sandbox-phase.ts';
import type { Cluster } from './cluster.ts';
import type { Duty } from './duties.ts';

export interface WarmSandboxDutiesOptions {
  readonly cluster: Cluster;
  /** Whether a person has asked for the sandbox, and no slot counts for it. */
  readonly isNewcomer: (sandbox: Sandbox) => boolean;
  /** The sandboxes of an owner that resume automatically, as soon as there is room. */
  readonly resumable: (owner: string) => readonly Sandbox[];
}

/** Maximum time until the eviction of a warm sandbox is stored. */
const promptMs = 4_000;

/**
 * Warm sandboxes are room: while a start, a resume or an automatic resume has room under the limit
 * of its owner, no warm sandbox keeps it waiting under the limit of the namespace. The eviction of
 * a warm sandbox is due at once, whatever the policy; the end of its pod may take longer.
 */
export function dutiesOfWarmSandboxes({
  cluster,
  isNewcomer,
  resumable,
}: WarmSandboxDutiesOptions): readonly Duty[] {
  const rules = quotaRules(cluster.quotas);
  const held = cluster.sandboxes.filter(shouldRun);
  const warmSandboxes = cluster.warmSandboxes.filter(shouldRun);
  const limit = rules.namespace?.limit ?? Infinity;
  if (warmSandboxes.length === 0 || limit === Infinity) return [];
  const owners = new Set(cluster.sandboxes.map(({ spec }) => spec.owner));
  const waiting = [...owners].flatMap((owner) => {
    const isOwn = ({ spec }: Sandbox): boolean => spec.owner === owner;
    const newcomers = cluster.sandboxes.filter((one) => isOwn(one) && isNewcomer(one));
    const room = (ownerRule(rules, owner)?.limit ?? Infinity) - held.filter(isOwn).length;
    return newcomers.length > 0
      ? newcomers.slice(0, Math.max(0, room))
      : resumable(owner).slice(0, 1);
  });
  const excess = held.length + warmSandboxes.length + waiting.length - limit;
  return excess <= 0 || held.length >= limit
    ? []
    : waiting.map(({ metadata: { name, generation } }) => ({
        rule: 'a warm sandbox makes room in time',
        subject: `sandbox ${name} ${generation}`,
        boundMs: promptMs,
      }));
}
