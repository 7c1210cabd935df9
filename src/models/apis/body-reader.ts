import { BadCallError, ModelApi } from './model-api.ts';
import { shortened } from './json-scan.ts';

/**
 * Fields that name further models, hosts or keys, or that a proxy such as LiteLLM merges into the
 * request that it sends: a call goes to one model, which is `model`.
 */
const otherModels = [
  ...['models', 'fallbacks', 'fallback_models', 'context_window_fallbacks'],
  ...['content_policy_fallbacks', 'context_window_fallback_dict', 'model_list', 'user_config'],
  ...['api_base', 'base_url', 'api_key', 'custom_llm_provider', 'litellm_credential_name'],
  ...['extra_body', 'extra_headers', 'extra_query', 'preset', 'providerOptions'],
] as const;
/**
 * Fields by which LiteLLM sends another request to the provider than the one that is counted here:
 * with other fields, without a limit, to another model or account, or more than once. With
 * `cooldown_time` and those of `isOfTests`, one call has it refuse the model to everybody for days.
 */
const rewriting: ReadonlySet<string> = new Set([
  ...['additional_drop_params', 'azure', 'config', 'cooldown_time', 'default_headers'],
  'deployment_id',
  ...['drop_params', 'headers', 'litellm_params', 'max_retries', 'num_retries'],
  ...['optional_params', 'organization', 'prompt_id', 'provider_specific_header'],
  ...['retry_policy', 'router_settings_override', 'silent_model', 'specific_deployment'],
]);
const isOfTests = (name: string): boolean => name.startsWith('mock_');
/**
 * Fields that make a provider bill more than text tokens, whatever their value is, or because of
 * which a proxy adds content, makes several calls of one, or selects a dearer server.
 */
const billedApart = [
  ...['audio', 'background', 'compaction', 'compound_custom', 'container', 'enable_search'],
  ...['mcp_servers', 'plugins', 'prediction', 'prompt', 'search_parameters', 'web_search_options'],
  ...['data_sources', 'provider', 'request_timeout', 'stream_timeout', 'timeout'],
  ...['vector_store_ids'],
] as const;
/** Fields of the price of tokens, with the values that leave it as it is. */
const tiers = [
  ['service_tier', ['auto', 'default', 'standard', 'standard_only']],
  ['serviceTier', ['standard']],
  ['speed', ['standard']],
  ['inference_geo', ['global']],
] as const;
/** Fields that a call is read from, at any place. */
const common = [
  ...['model', 'stream', 'stream_options', 'include_usage', 'n', 'max_tokens', 'messages'],
  ...['max_completion_tokens', 'max_output_tokens', 'input', 'instructions', 'system', 'content'],
  ...['type', 'role', 'tools', 'execution', 'environment', 'output'],
  ...['source', 'modalities', 'conversation', 'previous_response_id', 'thread'],
  ...['context_management', 'edits', 'reasoning', 'mode', 'thinking', 'budget_tokens'],
  ...['tool_changes', 'service_tier', 'speed', 'inference_geo'],
  ...otherModels,
  ...billedApart,
] as const;
/** Fields of Gemini, which accepts each of these names with underscores too. */
const gemini = [
  ...[
    'model',
    'contents',
    'systemInstruction',
    'tools',
    'functionDeclarations',
    'generationConfig',
  ],
  ...['maxOutputTokens', 'candidateCount', 'responseModalities', 'cachedContent', 'serviceTier'],
  ...['parts', 'text', 'thought', 'thoughtSignature', 'functionCall', 'functionResponse'],
  ...['inlineData', 'mimeType', 'executableCode', 'codeExecutionResult', 'mediaResolution'],
  ...['partMetadata', 'speechConfig', 'imageConfig'],
] as const;
/** The fields of an object, by names of which the reader has refused all other spellings. */
export type Fields = Readonly<Partial<Record<(typeof common | typeof gemini)[number], unknown>>>;

/** As the parsers of Go compare names, which take ſ for s and K (U+212A) for k. */
const fold = (name: string): string => name.toUpperCase().toLowerCase();
const foldGemini = (name: string): string => fold(name).replaceAll('_', '');
const withUnderscores = (name: string): string =>
  name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/**
 * Reads the objects of one body whose fields decide on cost, and collects what they say. A field in
 * a spelling that some providers accept and others ignore is refused, so that all read the same.
 */
export class BodyReader {
  readonly #isGemini: boolean;
  readonly #names: ReadonlyMap<string, string>;
  readonly #folded: ReadonlyMap<string, string>;
  images = 0;
  isSelfContained = true;
  runsAtProvider = false;
  tier: string | undefined;
  surcharge: string | undefined;

  constructor(api: ModelApi) {
    this.#isGemini = api === ModelApi.Gemini;
    const { names, folded } = this.#isGemini ? geminiNames : commonNames;
    this.#names = names;
    this.#folded = folded;
  }

  /** The object's fields by their first spelling; undefined for a value that is no object. */
  fieldsOf(value: unknown): Fields | undefined {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
    const fields: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
    for (const [spelled, each] of Object.entries(value)) {
      const name = this.#names.get(spelled);
      if (name === undefined) {
        const expected = this.#folded.get(this.#isGemini ? foldGemini(spelled) : fold(spelled));
        if (expected !== undefined)
          throw new BadCallError(`The field ${shortened(spelled)} must be spelled "${expected}".`);
        fields[spelled] = each;
      } else if (name in fields)
        throw new BadCallError(
          `The field "${name}" occurs twice in one object, as "${withUnderscores(name)}" too; it may occur once.`,
        );
      else fields[name] = each;
    }
    return fields;
  }

  /** Fields of the body itself, of which some are refused and some have a price. */
  bodyOf(value: unknown): Fields {
    const body = this.fieldsOf(value);
    if (body === undefined) throw new BadCallError('The body must be a JSON object.');
    for (const name of otherModels)
      if (isPresent(body[name]))
        throw new BadCallError(
          `The field "${name}" is not allowed; a call goes to the one model of the field "model".`,
        );
    for (const [name, each] of Object.entries(body))
      if ((rewriting.has(name) || isOfTests(name)) && isPresent(each))
        throw new BadCallError(
          `The field "${name}" is not allowed; a proxy for models may send another request because of it.`,
        );
    for (const name of billedApart) if (isPresent(body[name])) this.billsApart(`"${name}"`);
    for (const [name, normal] of tiers)
      if (isPresent(body[name]) && !normal.some((tier) => tier === body[name]))
        this.hasTier(name, body[name]);
    return body;
  }

  /** A field with content that is not text and not an image, or that is outside of the body. */
  refersOutside(): void {
    this.isSelfContained = false;
  }

  billsApart(field: string, value?: unknown): void {
    this.runsAtProvider = true;
    this.surcharge ??= value === undefined ? field : `${field} ${textOf(value)}`;
  }

  hasTier(field: string, value: unknown): void {
    this.tier ??= textOf(value).replaceAll('"', '');
    this.surcharge ??= `"${field}" ${textOf(value)}`;
  }
}

function namesOf(entries: readonly (readonly [spelled: string, name: string])[], by: typeof fold) {
  return {
    names: new Map(entries),
    folded: new Map(entries.map(([spelled, name]) => [by(spelled), name])),
  };
}
const commonNames = namesOf(
  common.map((name) => [name, name]),
  fold,
);
const geminiNames = namesOf(
  [
    ...gemini.flatMap((name) => [[name, name] as const, [withUnderscores(name), name] as const]),
    ...otherModels.map((name) => [name, name] as const),
  ],
  foldGemini,
);

/** Whether a field says more than its absence does. */
export const isPresent = (value: unknown): boolean =>
  value !== undefined &&
  value !== null &&
  value !== false &&
  !(Array.isArray(value) && value.length === 0);

const textOf = (value: unknown): string =>
  typeof value === 'string' ? shortened(value) : `of type ${typeof value}`;

/** A list, which is empty where it is absent; undefined for all else. */
export function listOf(value: unknown): readonly unknown[] | undefined {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value : undefined;
}

/** An integer from `minimum`, or undefined where the field is absent. */
export function integerOf(value: unknown, field: string, minimum = 1): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= minimum) return value;
  throw new BadCallError(`The field "${field}" must be an integer from ${String(minimum)}.`);
}

export function booleanOf(value: unknown, field: string): boolean {
  if (value === undefined || value === null) return false;
  if (typeof value === 'boolean') return value;
  throw new BadCallError(`The field "${field}" must be true or false.`);
}

/** Fields of an object that may be absent. */
export function objectOf(reader: BodyReader, value: unknown, field: string): Fields | undefined {
  if (value === undefined || value === null) return undefined;
  const fields = reader.fieldsOf(value);
  if (fields === undefined) throw new BadCallError(`The field "${field}" must be an object.`);
  return fields;
}

/** The field `tools`, whose entries must be objects. */
export function toolsOf(reader: BodyReader, value: unknown): readonly Fields[] {
  const tools = listOf(value)?.map((tool) => reader.fieldsOf(tool));
  if (tools === undefined || tools.includes(undefined))
    throw new BadCallError('The field "tools" must be a list of objects.');
  return tools.filter((tool) => tool !== undefined);
}
