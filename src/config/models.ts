import { parse } from 'yaml';
import { z } from 'zod';
import type { KeyLimits } from '../models/key-limits.ts';
import { credentialName } from '../resources/agent-settings.ts';
import {
  maxContextWindow,
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

/** A list in a variable: its schema, and how a value that does not match is described. */
interface ListSetting<T> {
  readonly schema: z.ZodType<readonly T[]>;
  /** Form of the variable, with an example. */
  readonly form: string;
  /** Name of an entry, as in “not a field of a price”. */
  readonly entry: string;
  /** Allowed values of a field of an entry. */
  readonly allowed: (field: PropertyKey) => string;
}

function problemOf<T>(
  { form, entry: what, allowed }: ListSetting<T>,
  issue: z.core.$ZodIssue | undefined,
): string {
  const [entry, ...fields] = issue?.path ?? [];
  if (typeof entry !== 'number') return issue?.code === 'too_big' ? 'has too many entries' : form;
  const place = [`entry ${entry + 1}`, ...(fields.length === 0 ? [] : [fields.join('.')])].join(
    ': ',
  );
  if (issue?.code === 'unrecognized_keys')
    return `${place}: ${issue.keys.join(', ')}: not a field of ${what}`;
  if (issue?.code === 'custom') return `${place}: ${issue.message}`;
  const field = fields.at(-1);
  return `${place}: ${field === undefined ? 'must be an object' : allowed(field)}`;
}

const listIn =
  <T>(setting: ListSetting<T>) =>
  (text: string, context: z.core.$RefinementCtx): readonly T[] => {
    let value: unknown;
    try {
      value = parse(text) as unknown;
    } catch {
      context.addIssue(setting.form);
      return z.NEVER;
    }
    const parsed = setting.schema.safeParse(value ?? []);
    if (parsed.success) return parsed.data;
    context.addIssue(problemOf(setting, parsed.error.issues[0]));
    return z.NEVER;
  };

/** The API server checks the shape of a name in a template. */
const prices: ListSetting<ModelPrice> = {
  schema: modelPrices((price) =>
    price.strict().extend({ model: price.shape.model.regex(modelPatternShape) }),
  ),
  form: 'must be a JSON or YAML list of prices, for example [{"model":"gpt-5*","inputPerMillion":1.25,"outputPerMillion":10}]',
  entry: 'a price',
  allowed: (field) => {
    switch (field) {
      case 'model':
        return 'must be the name of a model, in which * matches any characters';
      case 'contextWindow':
        return `must be a whole number from 1 to ${maxContextWindow}`;
      default:
        return `must be a number of USD from 0 to ${maxModelPrice}`;
    }
  },
};

/** Maximum calls at once, and maximum tokens a minute, that a limit may name. */
const maxima = { calls: 10_000, tokensPerMinute: 1_000_000_000 } as const;

const useLimits = {
  calls: z.int().min(1).max(maxima.calls).optional(),
  tokensPerMinute: z.int().min(1).max(maxima.tokensPerMinute).optional(),
};

/** Maximum entries of MODELS_LIMITS. */
const maxKeyLimits = 256;

const keyLimits = z
  .strictObject({
    credential: credentialName(),
    ...useLimits,
    perOwner: z.strictObject(useLimits).optional(),
  })
  .refine(
    ({ calls, tokensPerMinute, perOwner = {} }) =>
      [calls, tokensPerMinute, ...Object.values(perOwner)].some((limit) => limit !== undefined),
    'must have calls, tokensPerMinute or perOwner with one of them',
  );

const limits: ListSetting<KeyLimits> = {
  schema: z
    .array(keyLimits)
    .max(maxKeyLimits)
    .superRefine((entries, context) => {
      const names = entries.map(({ credential }) => credential);
      const index = names.findIndex((name, at) => names.indexOf(name) < at);
      if (index >= 0)
        context.addIssue({
          code: 'custom',
          path: [index, 'credential'],
          message: `${names[index] ?? ''} has an entry already`,
        });
    }),
  form: 'must be a JSON or YAML list of limits, for example [{"credential":"team-model","calls":20,"perOwner":{"calls":4}}]',
  entry: 'a limit',
  allowed: (field) => {
    switch (field) {
      case 'credential':
        return 'must be the name of a credential: up to 63 letters, digits, - and _';
      case 'calls':
      case 'tokensPerMinute':
        return `must be a whole number from 1 to ${maxima[field]}`;
      default:
        return 'must be an object with calls and tokensPerMinute, or one of them';
    }
  },
};

export const modelSettings = {
  ...modelCredentials,
  /**
   * Prices of models, before the gateway's own list: a JSON or YAML list of entries as in
   * `spec.models.prices` of a template, of which the first that matches applies. Default: none.
   */
  MODELS_PRICES: z.string().default('').transform(listIn(prices)),
  /**
   * Limits of keys of models in this process, and of each owner within them: a JSON or YAML list
   * with one entry for each credential. Default: none.
   */
  MODELS_LIMITS: z.string().default('').transform(listIn(limits)),
};
