/** Facts of a call that bound its tokens; `ModelCall` says how they are read from a request. */
export interface BoundedCall {
  /** Undefined: the request has none, and the relay sets `maxOutputDefault`. */
  readonly maxOutputTokens: number | undefined;
  /** Answers, each of up to `maxOutputTokens`. */
  readonly answers: number;
  /**
   * Whether the bytes of the body, with its images, bound the input. Otherwise only the context
   * window does: the body refers to content elsewhere, or contains audio, video or a document, of
   * which few bytes may be many tokens.
   */
  readonly isSelfContained: boolean;
  /** Images to which the body refers, in itself or by URL. */
  readonly images: number;
}

export interface WorstCaseOptions {
  readonly call: BoundedCall;
  readonly bodyBytes: number;
  /** Maximum tokens of one image, which do not depend on its bytes. */
  readonly tokensPerImage: number;
  /** Undefined: unknown. */
  readonly contextWindow: number | undefined;
  readonly maxOutputDefault: number;
}

export interface WorstCase {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/**
 * Tokens that providers add to what the body says: Anthropic's prompt for the use of tools (up to
 * 804), and its instructions for the tools that it defines itself and the agent runs (bash 325, text
 * editor 700, computer use 1,200, memory), each of which a request names once in few bytes. The few
 * tokens around each message are fewer than the bytes of its JSON.
 */
const addedTokens = 4096;
/** Lists of models round the windows: 1,000,000 stands for 1,047,576 or 1,050,000. */
const windowMargin = 1.05;
/**
 * The least output that a request may be lowered to; OpenAI's Responses refuses fewer. With so few a
 * model may only have begun to think: a caller may ask for more.
 */
export const leastOutputTokens = 16;

/**
 * Upper bound of the tokens of a call, or undefined if nothing bounds its input.
 *
 * Each token of text stands for at least one byte of the body. This assumes that the provider's
 * tokenizer does not expand the text before it reads it: compatibility normalization would make 18
 * letters of U+FDFA. If a call spends more than this bound, the whole of it is charged, and the
 * budget is exceeded by that one call.
 */
export function worstCaseOf(options: WorstCaseOptions): WorstCase | undefined {
  const { call, bodyBytes, tokensPerImage, contextWindow, maxOutputDefault } = options;
  const text = call.isSelfContained ? bodyBytes : Infinity;
  const window = contextWindow === undefined ? Infinity : Math.ceil(contextWindow * windowMargin);
  // The window does not bound images: gpt-4o-mini charges more tokens for them than they take of it.
  const inputTokens = Math.min(text, window) + addedTokens + call.images * tokensPerImage;
  if (!Number.isFinite(inputTokens)) return undefined;
  const outputTokens = (call.maxOutputTokens ?? maxOutputDefault) * call.answers;
  return { inputTokens, outputTokens };
}

export interface OutputLimit {
  readonly inputTokens: number;
  readonly answers: number;
  /** Tokens of one answer that the request asks for. */
  readonly wanted: number;
  /** The least tokens of one answer that are of use; a request that asks for fewer gets them. */
  readonly least?: number;
  /** What is left of the budgets in 1e-9 USD and in tokens; undefined: no budget in this unit. */
  readonly nanos: number | undefined;
  readonly tokens: number | undefined;
  /** Upper bound of the cost, which grows with the output; undefined if no budget is in money. */
  readonly worst: ((bound: WorstCase) => number) | undefined;
}

/**
 * The highest `maxOutputTokens`, up to the wanted one, with which the worst case of the call is within
 * what is left; undefined if not even the least useful one is.
 */
export function maxOutputWithin(limit: OutputLimit): number | undefined {
  const { inputTokens, answers, wanted, nanos = Infinity, tokens = Infinity, worst } = limit;
  const fits = (perAnswer: number): boolean => {
    const bound = { inputTokens, outputTokens: perAnswer * answers };
    return inputTokens + bound.outputTokens <= tokens && (worst?.(bound) ?? 0) <= nanos;
  };
  if (fits(wanted)) return wanted;
  let low = Math.min(limit.least ?? leastOutputTokens, wanted);
  if (!fits(low)) return undefined;
  let high = wanted;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (fits(middle)) low = middle;
    else high = middle;
  }
  return low;
}
