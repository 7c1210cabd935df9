import type { TimeLimits } from '../../src/quota/time-limits.ts';
import { apiVersion } from '../../src/resources/group.ts';
import type { Random } from './random.ts';
import type { RetentionSettings } from './retention-history.ts';
import type { Traits } from './world.ts';

export const template = (
  limits: TimeLimits,
  { stuckAfterMs, startDeadline }: Pick<Traits, 'stuckAfterMs' | 'startDeadline'>,
  retention: RetentionSettings | undefined,
) => ({
  apiVersion,
  kind: 'SandboxTemplate',
  metadata: { name: 'default', namespace: 'default' },
  spec: {
    podTemplate: { spec: { containers: [{ name: 'agent', image: 'agent:1' }] } },
    storage: { size: '1Gi', retain: false },
    startDeadline,
    agent: stuckAfterMs === undefined ? {} : { stuckAfter: `${stuckAfterMs / 1000}s` },
    ...(retention === undefined ? {} : { retention }),
    ...limits,
  },
});

/** Limits that pause nothing for its idleness or its age in most runs. */
export const someLimits = (random: Random): TimeLimits => ({
  ...(random.chance(0.2) ? { idleTimeout: `${random.whole(1, 20)}s` } : {}),
  ...(random.chance(0.1) ? { maxActiveTime: `${random.whole(10, 60)}s` } : {}),
});

export function outcomeOf(command: string, random: Random) {
  if (!command.includes('git clone')) return { tookMs: random.between(1, 50) };
  if (command.includes("'missing'")) return { exitCode: 242, tookMs: random.between(10, 2_000) };
  if (command.includes('owner/missing'))
    return { exitCode: 243, stderr: 'repository not found', tookMs: random.between(10, 2_000) };
  return { tookMs: random.between(100, 20_000) };
}
