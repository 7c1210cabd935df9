import { z } from 'zod';
import { count, described, listMap, text, validations } from './schema.ts';

/** Units of budgets: US dollars, and tokens of requests and answers together. */
export const budgetCurrencies = ['USD', 'Tokens'] as const;
export type BudgetCurrency = (typeof budgetCurrencies)[number];
/** Maximum amount of a budget in US dollars. */
export const maxBudgetUsd = 1_000_000;

/** Maximum models of one conversation. */
export const maxUsageModels = 20;
/** Maximum characters of a decimal text: 16 digits, a point, and nine decimals. */
const maxAmountLength = 26;
/** An amount as decimal text, because JSON numbers do not keep decimal fractions exact. */
export const decimalText = () => text(maxAmountLength).regex(/^[0-9]{1,16}(\.[0-9]{1,9})?$/);

const counters = ['calls', 'inputTokens', 'cachedInputTokens', 'outputTokens'] as const;
/** CEL rule for a decimal text that only grows. */
export const amountGrows = (field: string) => ({
  rule: `double(self.${field}) >= double(oldSelf.${field})`,
  message: `${field} never falls`,
  fieldPath: `.${field}`,
});
const grows = (field: string) => ({
  rule: `self.${field} >= oldSelf.${field}`,
  message: `${field} never falls`,
  fieldPath: `.${field}`,
});
/** CEL rules for sums that only grow. */
export const usageGrows = () => validations(...counters.map(grows), amountGrows('cost'));

/** Sums over calls of models. */
export const usageCounters = () => ({
  calls: described(count(), 'Number of calls of models.'),
  inputTokens: described(count(), 'Number of tokens in requests, cached ones included.'),
  cachedInputTokens: described(count(), 'Number of those tokens that a model read from its cache.'),
  outputTokens: described(count(), 'Number of tokens in answers.'),
  cost: described(decimalText(), 'Cost in US dollars, as a decimal number.'),
});

export const modelName = () => z.string().min(1).max(256);

/** Sums by model. */
export const usageByModel = () =>
  z
    .array(
      z
        .object({ model: described(modelName(), 'Name of the model.'), ...usageCounters() })
        .meta(usageGrows()),
    )
    .max(maxUsageModels)
    .meta(listMap('model'));
