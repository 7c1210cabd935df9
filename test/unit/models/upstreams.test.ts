import { acpAgentNames } from '../../../src/resources/acp-settings.ts';
import { upstreamOf, upstreamUrlOf, type UpstreamOptions } from '../../../src/models/upstreams.ts';

const own = 'https://models.example/v1';

describe('the upstream of a model', () => {
  it.each<[string, Partial<UpstreamOptions>, string | undefined]>([
    ['OpenAI', { model: 'openai/gpt-5' }, 'https://api.openai.com/v1'],
    ['OpenAI by its name alone', { model: 'gpt-5-mini' }, 'https://api.openai.com/v1'],
    ['a reasoning model of OpenAI', { model: 'o3' }, 'https://api.openai.com/v1'],
    ['Anthropic', { model: 'anthropic/claude-sonnet-4-5' }, 'https://api.anthropic.com'],
    ['Anthropic by its name alone', { model: 'claude-sonnet-4-5' }, 'https://api.anthropic.com'],
    [
      'Gemini',
      { model: 'gemini/gemini-2.5-pro' },
      'https://generativelanguage.googleapis.com/v1beta',
    ],
    [
      'a provider behind a provider',
      { model: 'openrouter/openai/gpt-5' },
      'https://openrouter.ai/api/v1',
    ],
    ['Mistral', { model: 'mistral/large' }, 'https://api.mistral.ai'],
    ['OpenHands', { model: 'openhands/x' }, 'https://llm-proxy.app.all-hands.dev'],
    ['a provider whose address is not constant', { model: 'azure/gpt-5' }, undefined],
    ['a provider that signs requests', { model: 'bedrock/anthropic.claude' }, undefined],
    ['another spelling of a provider', { model: 'OpenAI/gpt-5' }, undefined],
    ['a name that every object has', { model: 'constructor/x' }, undefined],
    ['a model of unknown origin', { model: 'llama' }, undefined],
    ['a model of Gemini at Vertex AI', { model: 'gemini-2.5-pro' }, undefined],
    ['codex', { agentKind: 'acp', acpAgent: 'codex' }, 'https://api.openai.com/v1'],
    ['claude', { agentKind: 'acp', acpAgent: 'claude' }, 'https://api.anthropic.com'],
    ['qwen', { agentKind: 'acp', acpAgent: 'qwen' }, 'https://api.openai.com/v1'],
    ['kimi', { agentKind: 'acp', acpAgent: 'kimi' }, 'https://api.openai.com/v1'],
    [
      'gemini',
      { agentKind: 'acp', acpAgent: 'gemini' },
      'https://generativelanguage.googleapis.com',
    ],
    ['opencode, which has no default', { agentKind: 'acp', acpAgent: 'opencode' }, undefined],
    ['an agent of a command line', { agentKind: 'acp' }, undefined],
    [
      'an ACP agent does not follow the name of the model',
      { agentKind: 'acp', acpAgent: 'claude', model: 'openai/gpt-5' },
      'https://api.anthropic.com',
    ],
  ])('of %s', (_name, options, expected) => {
    expect(upstreamOf({ model: 'm', agentKind: 'openhands', ...options })).toBe(expected);
  });

  it.each<UpstreamOptions>([
    { model: 'openai/gpt-5', agentKind: 'openhands' },
    { model: 'bedrock/x', agentKind: 'openhands' },
    { model: 'm', agentKind: 'acp' },
    ...acpAgentNames.map((acpAgent) => ({ model: 'm', agentKind: 'acp' as const, acpAgent })),
  ])("is the template's URL for $agentKind $acpAgent $model", (options) => {
    expect(upstreamOf({ ...options, baseUrl: own })).toBe(own);
    expect(upstreamOf({ ...options, baseUrl: `${own}//` })).toBe(own);
  });

  it.each([
    ['https://x.example/v1/messages', 'anthropic/c', 'https://x.example'],
    ['https://x.example/v1/chat/completions', 'groq/x', 'https://x.example/v1'],
    ['https://api.openai.com/', 'openai/gpt-5', 'https://api.openai.com/v1'],
    ['https://api.openai.com', 'groq/x', 'https://api.openai.com'],
    ['https://x.example/messages', 'anthropic/c', 'https://x.example/messages'],
  ])('of the URL %s and %s is without what the agent appends: %s', (baseUrl, model, expected) => {
    expect(upstreamOf({ model, agentKind: 'openhands', baseUrl })).toBe(expected);
  });
});

it.each([
  ['https://x.example/v1', '/chat/completions', 'https://x.example/v1/chat/completions'],
  ['https://x.example', '/v1/messages', 'https://x.example/v1/messages'],
  ['https://x.example/v1', '/v1/chat/completions', 'https://x.example/v1/chat/completions'],
  ['https://x.example/v1beta', '/v1beta/models', 'https://x.example/v1beta/models'],
  ['https://x.example/v1', '/v1beta/models', 'https://x.example/v1/v1beta/models'],
  ['https://x.example/v1', '/v10/models', 'https://x.example/v1/v10/models'],
  ['https://v1', '/v1/models', 'https://v1/v1/models'],
])('the URL of %s and %s is %s', (upstream, path, expected) => {
  expect(upstreamUrlOf(upstream, path)).toBe(expected);
});
