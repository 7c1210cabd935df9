import { z } from 'zod';
import { described, listMap, optional, validations } from './schema.ts';

/** Maximum price in USD of a million tokens, so that sums stay exact. */
export const maxModelPrice = 1_000_000;

/** Maximum input tokens that a price may name. */
export const maxContextWindow = 100_000_000;

const price = () => z.number().min(0).max(maxModelPrice);

/** Shape of a pattern of model names. */
export const modelPatternShape = /^[A-Za-z0-9*][A-Za-z0-9._:@+/*-]*$/;

/** A CEL rule instead of a pattern, because caches drop stored templates that violate a pattern. */
const modelRule = {
  rule: `self.model.matches('${modelPatternShape.source.replaceAll('\\/', '/')}')`,
  message: 'model must be the name of a model, in which * matches any characters',
  fieldPath: '.model',
};

const modelPriceFields = z.object({
  model: described(
    z.string().min(1).max(256),
    'Name of the models with this price, in which * matches any characters. The first entry that matches applies.',
  ),
  inputPerMillion: described(price(), 'Price of a million input tokens in USD.'),
  outputPerMillion: described(price(), 'Price of a million output tokens in USD.'),
  cachedInputPerMillion: optional(
    price(),
    'Price of a million input tokens in USD that the provider reads from its cache. Absent: inputPerMillion.',
  ),
  cacheWritePerMillion: optional(
    price(),
    'Price of a million input tokens in USD that the provider writes to its cache. Absent: inputPerMillion.',
  ),
  contextWindow: optional(
    z.int().min(1).max(maxContextWindow),
    'Maximum input tokens of the model, which bound a call that refers to content outside of its body. Absent: what the list of the gateway says.',
  ),
});

export type ModelPrice = Readonly<z.output<typeof modelPriceFields>>;

/** Maximum entries of a list of prices. */
const maxPrices = 64;

/** @param checked Returns the schema of one entry. */
export const modelPrices = (checked: (price: typeof modelPriceFields) => z.ZodType<ModelPrice>) =>
  z.array(checked(modelPriceFields)).max(maxPrices);

/** The `maxOutputTokens` of a template that sets none. */
export const defaultMaxOutputTokens = 16_384;

export const modelSettingsSchema = z.object({
  relay: optional(
    z.boolean(),
    'Whether agents reach the model through the gateway, which alone holds the API key and counts the tokens. Absent: true, in the namespace whose sandboxes reach the gateway. False: the agent gets the key, and no budget applies to the conversation.',
  ),
  passThrough: optional(
    z.boolean(),
    'Whether the gateway also passes on requests to paths of the API that it can not count. Never under a budget in USD. Absent: false.',
  ),
  maxOutputTokens: optional(
    z.int().min(1).max(1_000_000),
    `Maximum output tokens that the gateway sets under a budget in a request that has no maximum. Absent: ${defaultMaxOutputTokens}.`,
  ),
  prices: optional(
    modelPrices((price) => price.meta(validations(modelRule))).meta(listMap('model')),
    "Prices of models, before those of the installation and of the gateway's own list.",
  ),
});

export type ModelSettings = Readonly<z.output<typeof modelSettingsSchema>>;
