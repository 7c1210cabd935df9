import { parse } from 'yaml';
import { z } from 'zod';
import {
  maxModelPrice,
  modelPatternShape,
  modelPrices,
  type ModelPrice,
} from '../resources/model-settings.ts';

/** Settings of the gateway, which relays requests to models, and of the operator. */
export const modelCredentials = {
  /** Folder of API keys for models in files NAME (all owners) or NAME.OWNER. Default: none. */
  AGENT_CREDENTIALS_DIR: z.string().optional(),
};

const form =
  'must be a JSON or YAML list of prices, for example [{"model":"gpt-5*","inputPerMillion":1.25,"outputPerMillion":10}]';

function problemOf(issue: z.core.$ZodIssue | undefined): string {
  const [entry, field] = issue?.path ?? [];
  if (typeof entry !== 'number') return issue?.code === 'too_big' ? 'has too many entries' : form;
  const place = `entry ${entry + 1}`;
  if (issue?.code === 'unrecognized_keys')
    return `${place}: ${issue.keys.join(', ')}: not a field of a price`;
  if (field === undefined) return `${place}: must be an object`;
  const allowed =
    field === 'model'
      ? 'must be the name of a model, in which * matches any characters'
      : `must be a number of USD from 0 to ${maxModelPrice}`;
  return `${place}: ${String(field)}: ${allowed}`;
}

function pricesOf(text: string, context: z.core.$RefinementCtx): readonly ModelPrice[] {
  let value: unknown;
  try {
    value = parse(text) as unknown;
  } catch {
    context.addIssue(form);
    return z.NEVER;
  }
  const parsed = prices.safeParse(value ?? []);
  if (parsed.success) return parsed.data;
  context.addIssue(problemOf(parsed.error.issues[0]));
  return z.NEVER;
}

/** The API server checks the shape of a name in a template. */
const prices = modelPrices((price) =>
  price.strict().extend({ model: price.shape.model.regex(modelPatternShape) }),
);

export const modelSettings = {
  ...modelCredentials,
  /**
   * Prices of models, before the gateway's own list: a JSON or YAML list of entries as in
   * `spec.models.prices` of a template, of which the first that matches applies. Default: none.
   */
  MODELS_PRICES: z.string().default('').transform(pricesOf),
};
