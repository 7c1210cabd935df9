/** The APIs for models that the relay understands, each as its provider publishes it. */
export const ModelApi = {
  OpenAiChat: 'openai-chat',
  OpenAiResponses: 'openai-responses',
  AnthropicMessages: 'anthropic-messages',
  Gemini: 'gemini',
} as const;
export type ModelApi = (typeof ModelApi)[keyof typeof ModelApi];

/**
 * The kind of a request, as its method and path say. `api` is also the shape of the errors that the
 * client expects. `pathModel` and `isStream` are set for Gemini alone, whose path
 * says what the body says elsewhere.
 */
export type Operation =
  | {
      readonly kind: 'generate';
      readonly api: ModelApi;
      readonly pathModel: string | undefined;
      readonly isStream: boolean | undefined;
    }
  /** A request that providers answer without charge: lists of models, and counts of tokens. */
  | { readonly kind: 'uncounted'; readonly api: ModelApi };

/** A request for an answer of a model, read from the path and the body. */
export interface ModelCall {
  readonly api: ModelApi;
  readonly model: string;
  readonly isStream: boolean;
  /** Maximum output tokens of each answer; undefined if the request has none. */
  readonly maxOutputTokens: number | undefined;
  /** Minimum that the provider accepts as a lower limit, which thinking, for example, raises. */
  readonly minOutputTokens: number;
  /** Number of answers, each of up to `maxOutputTokens`; at least 1. */
  readonly answers: number;
  /**
   * Whether the length of the body in bytes, with `images`, bounds the input tokens. Otherwise the
   * call refers to other content outside of its body, or contains a document, audio or video, and
   * only the context window of the model bounds its input.
   */
  readonly isSelfContained: boolean;
  /** Number of images in the body, by URL or by id. Their tokens do not depend on their bytes. */
  readonly images: number;
  /** Whether the provider runs tools or bills more than text tokens: then tokens bound no cost. */
  readonly runsAtProvider: boolean;
  /** Service tier with a price of its own, such as `priority` or `fast`; undefined for none. */
  readonly tier: string | undefined;
  /**
   * First field because of which `runsAtProvider` is true or `tier` is set, with its value, for the
   * refusal under a budget, such as `tools[2].type "web_search"`; undefined for neither.
   */
  readonly surcharge: string | undefined;
}

/** A body that the relay refuses. The message names the field and what is allowed. */
export class BadCallError extends Error {
  override readonly name = 'BadCallError';
}

/** Maximum tokens that a provider charges for one image, of the dearest model of each API. */
export const maxTokensOfImage: Readonly<Record<ModelApi, number>> = {
  // gpt-4o-mini: 2,833 tokens, and 5,667 for each of at most 8 tiles.
  [ModelApi.OpenAiChat]: 48_169,
  [ModelApi.OpenAiResponses]: 48_169,
  [ModelApi.AnthropicMessages]: 4_784,
  // 258 tokens for each tile of 768 × 768 pixels of at most 3,072 × 3,072.
  [ModelApi.Gemini]: 4_128,
};
