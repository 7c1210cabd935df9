import { readCall } from '../../../../src/models/apis/call.ts';
import { ModelApi, type ModelCall } from '../../../../src/models/apis/model-api.ts';

export const apis = Object.values(ModelApi);

/** A call of each API with no field that it does not need. */
export const plainBody: Readonly<Record<ModelApi, Readonly<Record<string, unknown>>>> = {
  'openai-chat': { model: 'gpt-5.6', messages: [{ role: 'user', content: 'Hello' }] },
  'openai-responses': { model: 'gpt-5.6', input: 'Hello' },
  'anthropic-messages': {
    model: 'claude-opus-5',
    max_tokens: 100,
    messages: [{ role: 'user', content: 'Hello' }],
  },
  gemini: { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }] },
};

export function callOfText(api: ModelApi, text: string | Buffer, isStream = false): ModelCall {
  const path =
    api === ModelApi.Gemini
      ? { pathModel: 'gemini-3-pro', isStream }
      : { pathModel: undefined, isStream: undefined };
  return readCall({ kind: 'generate', api, ...path }, Buffer.from(text)).call;
}

/** The call of the plain body of `api` with further `fields`. */
export const callOf = (api: ModelApi, fields: Readonly<Record<string, unknown>> = {}): ModelCall =>
  callOfText(api, JSON.stringify({ ...plainBody[api], ...fields }));
