import { usedOf } from './money.ts';
import type { UsageBudget } from './wire.ts';

export const periodWords = { Day: 'today', Week: 'this week', Month: 'this month' } as const;

export interface BudgetWarning {
  readonly level: 'near' | 'nearer' | 'used-up';
  readonly text: string;
}

/** A warning from 80 % of a budget; undefined below, and where its period has ended. */
export function warningOf(
  budget: UsageBudget | null | undefined,
  now: number,
): BudgetWarning | undefined {
  if (budget == null || now >= Date.parse(budget.resets_at)) return undefined;
  const { amount, currency, spent, period, scope } = budget;
  const [name, whose] =
    scope === 'Owner' ? ['Your budget', 'your'] : ['The common budget', 'the common'];
  const text = `${usedOf(currency, spent, amount)} ${periodWords[period]}`;
  if (spent >= amount)
    return {
      level: 'used-up',
      text: `${name} is used up: ${text}. Agents get no more answers of models.`,
    };
  const part = spent / amount;
  if (part < 0.8) return undefined;
  return {
    level: part < 0.9 ? 'near' : 'nearer',
    text: `${Math.floor(part * 100)} % of ${whose} budget is used: ${text}.`,
  };
}
