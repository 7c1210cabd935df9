import type { TokenUsage } from './usage.ts';
export interface UsageDelta {
  readonly day: string;
  readonly model: string;
  readonly template: string;
  readonly conversation: string;
  readonly usage: TokenUsage;
  readonly nanos: number;
}
export function withUsage<T extends object>(status: T, deltas: readonly UsageDelta[]): T {
  const old = (status as any).totals ?? {
    calls: 0,
    inputTokens: 0,
    cachedInputTokens: 0,
    outputTokens: 0,
    cost: '0',
  };
  const t = { ...old };
  for (const d of deltas) {
    t.calls++;
    t.inputTokens += d.usage.inputTokens;
    t.cachedInputTokens += d.usage.cachedInputTokens;
    t.outputTokens += d.usage.outputTokens;
    t.cost = String(Math.round((Number(t.cost) + d.nanos / 1e9) * 1e9) / 1e9);
  }
  return { ...status, totals: t };
}
