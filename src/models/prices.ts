import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { matchesPattern } from '../resources/agent-settings.ts';
import { knownModelOf } from './known-model.ts';
import { libraryPriceOf, modelPriceOf, type ModelPrice } from './model-price.ts';

/** Price of the models whose names match a pattern, in USD per million tokens. */
export interface PriceOverride {
  /** Name of the model as requests contain it, in any case; each `*` matches any characters. */
  readonly model: string;
  readonly inputPerMillion: number;
  readonly outputPerMillion: number;
  /** Absent: `inputPerMillion`. */
  readonly cachedInputPerMillion?: number | undefined;
  /** Absent: `inputPerMillion`. */
  readonly cacheWritePerMillion?: number | undefined;
  /** Tokens of input that the model takes at most. Absent: what the library knows of the name. */
  readonly contextWindow?: number | undefined;
}

export interface PricedModel {
  /** Name in the request. */
  readonly model: string;
  /** URL to which the request goes; undefined for the provider's own. */
  readonly baseUrl: string | undefined;
  /** Prices of the template, which come first. */
  readonly overrides?: readonly PriceOverride[] | undefined;
}

const maxKnownNames = 1000;
/** A longer name is no model of the library. */
const maxNameLength = 256;

/**
 * Prices of models: those of the template, then those of the installation, then those of the library
 * (`knownModelOf` says which names count).
 */
export class PriceBook {
  readonly #installation: readonly PriceOverride[];
  // Agents select the names, so the cache is bounded.
  readonly #known = recentlyUsed<{ readonly price: ModelPrice | undefined }>(maxKnownNames);

  constructor(installation: readonly PriceOverride[] = []) {
    this.#installation = installation;
  }

  /**
   * The price of a model; undefined if nobody has said it. Danger: a model without a price is not
   * free; under a budget in money it is refused. Only an override makes a price of 0.
   */
  priceOf({ model, baseUrl, overrides = [] }: PricedModel): ModelPrice | undefined {
    const name = model.toLowerCase().replace(/^models\//, '');
    const override = [...overrides, ...this.#installation].find((each) =>
      matchesPattern(name, each.model.toLowerCase().replace(/^models\//, '')),
    );
    const known = this.#libraryPrice(name, baseUrl);
    return override === undefined
      ? known
      : overridden(override, override.contextWindow ?? known?.contextWindow);
  }

  #libraryPrice(name: string, baseUrl: string | undefined): ModelPrice | undefined {
    if (name.length > maxNameLength) return undefined;
    const key = `${name}\n${baseUrl ?? ''}`;
    const cached = this.#known.get(key);
    if (cached !== undefined) return cached.price;
    const found = knownModelOf(name, baseUrl);
    const price = found && libraryPriceOf(found);
    this.#known.set(key, { price });
    return price;
  }
}

function overridden(override: PriceOverride, contextWindow: number | undefined): ModelPrice {
  const { inputPerMillion, cachedInputPerMillion, cacheWritePerMillion } = override;
  const write = cacheWritePerMillion ?? inputPerMillion;
  const prices = {
    input_mtok: inputPerMillion,
    cache_read_mtok: cachedInputPerMillion ?? inputPerMillion,
    cache_write_mtok: write,
    cache_write_1h_mtok: write,
    output_mtok: override.outputPerMillion,
  };
  return modelPriceOf({
    pricesAt: () => prices,
    isConstant: true,
    doublesHour: false,
    contextWindow,
  });
}
