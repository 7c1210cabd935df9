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

/** Matches the end of a normal path that some server reads as an operation that costs tokens. */
const costly =
  /(?:^|\/)(?:chat\/completions|responses|messages)$|:(?:generatecontent|streamgeneratecontent)$/;

/**
 * Whether some server may read an unknown path as an operation that the relay counts: in another
 * spelling (encoded, in upper case, with slashes, dots or parameters to be left out), or below
 * another prefix, as proxies for several providers have them. Such a path is never passed on.
 */
export const mayBeCounted = (rest: string): boolean => costly.test(normalOf(rest));

/** Maximum times that servers and the proxies before them decode a path. */
const maxDecodings = 4;

/** The path as the most lenient server reads it, without dots. */
function normalOf(rest: string): string {
  let path = rest;
  for (let count = 0; count < maxDecodings; count++)
    path = path.replaceAll(/%([0-7][0-9a-f])/gi, (_all, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
  const segments: string[] = [];
  for (const segment of path.replace(/[?#].*$/s, '').split(/[/\\]/)) {
    const [name = ''] = segment.split(';');
    const letters = name.replaceAll(/[\0-\x20.\x7f]+/g, '').toLowerCase();
    if (name === '..') segments.pop();
    else if (letters !== '') segments.push(letters);
  }
  return segments.join('/');
}

/** The API in whose shape a client of `rest` expects errors, also where `rest` is unknown. */
export function errorApiOf(rest: string): ModelApi {
  if (rest.startsWith('v1beta/') || rest.startsWith('v1alpha/')) return ModelApi.Gemini;
  if (/:\w+$/.test(rest)) return ModelApi.Gemini;
  const path = rest.replace(/^v1\//, '');
  if (/^messages(\/|$)/.test(path)) return ModelApi.AnthropicMessages;
  return /^responses(\/|$)/.test(path) ? ModelApi.OpenAiResponses : ModelApi.OpenAiChat;
}
