import { findCondition } from '../../resources/conditions.ts';
import { ownerRule, quotaRules, type QuotaRule } from '../../resources/quota-rules.ts';
import { SandboxCondition, slotTaken, type Sandbox } from '../../resources/sandbox.ts';
import type { Services } from '../app/services.ts';
import { ProblemError } from '../errors/problem-error.ts';

const retryAfterSeconds = 10;

/** It takes a slot, or is about to. */
const counts = (sandbox: Sandbox): boolean =>
  slotTaken(sandbox) || (sandbox.spec.replicas === 1 && findCondition(sandbox.status?.conditions, SandboxCondition.admitted) === undefined);

/**
 * Refuses what a quota with the policy Reject has no room for, as far as the cache knows: the operator refuses what comes in all
 * the same.
 */
export function refuseOverQuota({ records }: Services, owner: string): void {
  const rules = quotaRules(records.quotas());
  refuse(ownerRule(rules, owner), () => records.sandboxesOf(owner));
  refuse(rules.namespace, () => records.everySandbox());
}

function refuse(rule: QuotaRule | undefined, sandboxes: () => readonly Sandbox[]): void {
  if (rule?.onExceeded !== 'Reject') return;
  const { limit } = rule;
  const current = sandboxes().filter(counts).length;
  if (current < limit) return;
  throw new ProblemError('quota-exceeded', `At most ${limit} may be active at once, and ${current} are. Pause one, or try again later.`, {
    headers: { 'retry-after': String(retryAfterSeconds) },
    usage: { limit, current },
  });
}
