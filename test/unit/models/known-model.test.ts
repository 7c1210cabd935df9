import { knownModelOf } from '../../../src/models/known-model.ts';

const nameOf = (model: string, baseUrl?: string) => {
  const found = knownModelOf(model, baseUrl);
  return found && `${found.provider.id} ${found.model.id}`;
};

describe('a name is a model of the library', () => {
  it.each([
    ['openai/gpt-5', undefined, 'openai gpt-5'],
    ['anthropic/claude-sonnet-4-5', undefined, 'anthropic claude-sonnet-4-5'],
    ['gemini/gemini-2.5-pro', undefined, 'google gemini-2.5-pro'],
    ['models/gemini-2.5-flash', undefined, 'google gemini-2.5-flash'],
    ['Claude-Sonnet-4-5-20250929', undefined, 'anthropic claude-sonnet-4-5'],
    ['claude-sonnet-4-20250514', undefined, 'anthropic claude-sonnet-4-0'],
    ['claude-3-5-haiku-latest', undefined, 'anthropic claude-3-5-haiku-latest'],
    ['gpt-5-mini', undefined, 'openai gpt-5-mini'],
    ['gpt-5-nano-2025-08-07', undefined, 'openai gpt-5-nano'],
    ['gpt-5-20250807', undefined, 'openai gpt-5'],
    ['gemini-2.0-flash-001', undefined, 'google gemini-2.0-flash'],
    ['gemini-2.5-pro-preview-05-06', undefined, 'google gemini-2.5-pro'],
    ['gemini-2.5-pro-preview-tts', undefined, 'google gemini-2.5-pro-tts'],
    ['xai/grok-4', undefined, 'x-ai grok-4-0709'],
    ['vertex_ai/claude-sonnet-4-5@20250929', undefined, 'google claude-sonnet-4-5'],
    [
      'bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0',
      undefined,
      'aws regional.anthropic.claude-sonnet-4-5-20250929-v1:0',
    ],
    ['gpt-5', 'http://litellm.models:4000/v1', 'openai gpt-5'],
    ['openai/gpt-5', 'https://api.openai.com/v1', 'openai gpt-5'],
    ['gpt-5', 'https://people.openai.azure.com/openai', 'azure gpt-5'],
    [
      'anthropic/claude-sonnet-4.5',
      'https://openrouter.ai/api/v1',
      'openrouter anthropic/claude-sonnet-4.5',
    ],
    ['openrouter/anthropic/claude-sonnet-4.5', undefined, 'openrouter anthropic/claude-sonnet-4.5'],
  ])('%s at %s is %s', (model, baseUrl, expected) => {
    expect(nameOf(model, baseUrl)).toBe(expected);
  });
});

describe('a name that only has a known one in it is unknown', () => {
  it.each<[string, string | undefined]>([
    ['my-gpt-4', undefined],
    ['gpt-5-turbo-ultra', undefined],
    ['my-claude-opus-4-6', undefined],
    ['claude-sonnet-4-5-ultra', undefined],
    ['claude-sonnet-5-5', undefined],
    ['claude-opus-4-10', undefined],
    ['gemini-2.5-pro-ultra', undefined],
    ['gemini-3.5-flash-9-ultra', undefined],
    ['gpt-4o-2031-01-01', undefined],
    ['gpt-4o:online', undefined],
    ['ft:gpt-4o-2024-08-06:people::id', undefined],
    ['openai/ft:gpt-4o-2024-08-06:people::id', undefined],
    ['ft:gpt-3.5-turbo', undefined],
    ['openai/ft:gpt-3.5-turbo', undefined],
    ['azure/gpt-4o-mini-2024-07-18.ft-0123', undefined],
    ['nobody/gpt-5', undefined],
    ['my-openai/gpt-5', undefined],
    ['openai/gpt-5', 'https://api.anthropic.com'],
    ['my-o4-mini', 'https://people.openai.azure.com/openai'],
    ['', undefined],
    ['/', undefined],
    ['constructor/gpt-5', undefined],
  ])('%s at %s', (model, baseUrl) => {
    expect(nameOf(model, baseUrl)).toBeUndefined();
  });
});
