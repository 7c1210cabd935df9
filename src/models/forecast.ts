import { parseAmount } from '../budget/money.ts';
import type { UsageRow } from './usage-rows.ts';

export interface ForecastBudget {
  readonly unit: 'USD' | 'Tokens';
  /** In 1e-9 USD or tokens, with what people have added. */
  readonly limit: number;
  readonly spent: number;
  readonly startsAtMs: number;
  /** Infinity for a budget without a period. */
  readonly endsAtMs: number;
}

const dayMs = 24 * 60 * 60_000;
const paceMs = 7 * dayMs;
/** The pace of less time says nothing. */
const minPaceMs = 60 * 60_000;

const amountOf = (row: UsageRow, unit: ForecastBudget['unit']): number =>
  unit === 'USD' ? parseAmount(row.cost, unit) : row.inputTokens + row.outputTokens;

/**
 * Time at which the budget is used up at the pace of the last 7 days, or of the period if it has
 * been shorter. Undefined if it lasts until the end of the period, if nothing is spent, or in the first
 * hour of the period. Days that are in part within that time count in proportion.
 */
export function exhaustionOf(
  rows: readonly UsageRow[],
  { unit, limit, spent, startsAtMs, endsAtMs }: ForecastBudget,
  nowMs: number,
): number | undefined {
  if (spent >= limit) return nowMs;
  const sinceMs = Math.max(nowMs - paceMs, startsAtMs);
  if (nowMs - sinceMs < minPaceMs) return undefined;
  const recent = rows.reduce((sum, row) => {
    const dayStartMs = Date.parse(`${row.day}T00:00:00Z`);
    const lastMs = Math.min(dayStartMs + dayMs, nowMs);
    const part = (lastMs - Math.max(dayStartMs, sinceMs)) / (lastMs - dayStartMs);
    return dayStartMs < nowMs && part > 0 ? sum + amountOf(row, unit) * Math.min(part, 1) : sum;
  }, 0);
  const endMs = nowMs + ((limit - spent) / recent) * (nowMs - sinceMs);
  return endMs < endsAtMs && Number.isFinite(endMs) ? Math.round(endMs) : undefined;
}
