import { ModelApi, type Operation } from './model-api.ts';

/** Paths that ask for an answer, but Gemini's, whose model is in the path. */
const generating: Readonly<Record<string, ModelApi>> = {
  'chat/completions': ModelApi.OpenAiChat,
  responses: ModelApi.OpenAiResponses,
  messages: ModelApi.AnthropicMessages,
};

/** An id of a model. Nothing in it changes the path that it is a part of. */
const id = String.raw`[\w@+-][\w@+.:-]*(?:(?:/|%2[Ff])[\w@+-][\w@+.:-]*)*`;
const listed = new RegExp(`^(?:(v1beta|v1)/)?models(?:/${id})?$`);
const geminiCall = new RegExp(
  `^(?:v1beta/|v1/|v1alpha/)?models/(${id}):(generateContent|streamGenerateContent|countTokens)$`,
);

/**
 * The operation that a request asks for; undefined for one that the relay does not understand.
 * `rest` is the path after the address of the relay, as it was sent, with no slash before it and no
 * query.
 */
export function operationOf(method: string, rest: string): Operation | undefined {
  if (method === 'GET') {
    const [, version] = listed.exec(rest) ?? [undefined, 'none'];
    if (version === 'none') return undefined;
    return { kind: 'uncounted', api: version === 'v1beta' ? ModelApi.Gemini : ModelApi.OpenAiChat };
  }
  if (method !== 'POST') return undefined;
  const path = rest.replace(/^v1\//, '');
  if (path === 'messages/count_tokens')
    return { kind: 'uncounted', api: ModelApi.AnthropicMessages };
  if (Object.hasOwn(generating, path)) {
    const api = generating[path];
    if (api !== undefined)
      return { kind: 'generate', api, pathModel: undefined, isStream: undefined };
  }
  const [, model, verb] = geminiCall.exec(rest) ?? [];
  if (model === undefined) return undefined;
  if (verb === 'countTokens') return { kind: 'uncounted', api: ModelApi.Gemini };
  return {
    kind: 'generate',
    api: ModelApi.Gemini,
    pathModel: model.replaceAll(/%2f/gi, '/'),
    isStream: verb === 'streamGenerateContent',
  };
}

/** The API in whose shape a client of `rest` expects errors, also where `rest` is unknown. */
export function errorApiOf(rest: string): ModelApi {
  if (rest.startsWith('v1beta/') || rest.startsWith('v1alpha/')) return ModelApi.Gemini;
  if (/:\w+$/.test(rest)) return ModelApi.Gemini;
  const path = rest.replace(/^v1\//, '');
  if (/^messages(\/|$)/.test(path)) return ModelApi.AnthropicMessages;
  return /^responses(\/|$)/.test(path) ? ModelApi.OpenAiResponses : ModelApi.OpenAiChat;
}
