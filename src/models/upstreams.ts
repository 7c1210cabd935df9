import type { AcpAgentName } from '../resources/acp-settings.ts';
import type { AgentKind } from '../resources/agent-settings.ts';

/**
 * The base URL of a model's API, to which the relay appends what an agent appends to the base URL
 * that it was given. Measured with the pinned versions, for a base URL without a slash at its end;
 * OpenHands calls models by LiteLLM 1.105.3:
 *
 * | agent | appended path | header |
 * |---|---|---|
 * | OpenHands, `anthropic/`, `claude-…` | `/v1/messages` | x-api-key |
 * | OpenHands, `gemini/` | `/models/{model}:[stream]generateContent` | x-goog-api-key |
 * | OpenHands, `mistral/`, `minimax/` | `/v1/chat/completions` | Authorization |
 * | OpenHands, others | `/chat/completions`, `/responses` | Authorization |
 * | reference agent | `/chat/completions` | Authorization |
 * | codex | `/responses` | Authorization |
 * | claude | `/v1/messages` | x-api-key |
 * | qwen, opencode, kimi | `/chat/completions` | Authorization |
 * | gemini | `/v1beta/models/{model}:[stream]generateContent` | x-goog-api-key |
 *
 * OpenHands with `litellm_proxy/` or `openhands/` also reads `/v1/model/info`.
 */
export interface UpstreamOptions {
  /** Model of the conversation. */
  readonly model: string;
  readonly agentKind: AgentKind;
  /** Absent: an agent of the kind `acp` that a command line starts. */
  readonly acpAgent?: AcpAgentName | undefined;
  /** `spec.agent.baseUrl` of the template. */
  readonly baseUrl?: string | undefined;
}

/** Returns the base URL without a slash at its end; undefined if nothing says which API it is. */
export function upstreamOf({
  model,
  agentKind,
  acpAgent,
  baseUrl,
}: UpstreamOptions): string | undefined {
  const provider = agentKind === 'openhands' ? providerOf(model) : undefined;
  if (baseUrl === undefined) {
    if (agentKind === 'acp') return acpAgent && acpUpstreams[acpAgent];
    return provider === undefined || !Object.hasOwn(providerUpstreams, provider)
      ? undefined
      : providerUpstreams[provider];
  }
  // LiteLLM does not append a path with which a base URL ends. The relay's address ends with none.
  const base = baseUrl.replace(/\/+$/, '').replace(/\/(v1\/messages|chat\/completions)$/, '');
  return withVersion(base, provider);
}

/** Default base URL of each ACP agent's program. Absent: the agent has no default. */
const acpUpstreams: Readonly<Partial<Record<AcpAgentName, string>>> = {
  codex: 'https://api.openai.com/v1',
  claude: 'https://api.anthropic.com',
  qwen: 'https://api.openai.com/v1',
  gemini: 'https://generativelanguage.googleapis.com',
  kimi: 'https://api.openai.com/v1',
};

/**
 * Default base URLs of LiteLLM 1.105.3 by the model's provider, for providers with one constant URL
 * and one of the APIs above. The last two are providers of OpenHands itself.
 */
const providerUpstreams: Readonly<Record<string, string>> = {
  openai: 'https://api.openai.com/v1',
  anthropic: 'https://api.anthropic.com',
  gemini: 'https://generativelanguage.googleapis.com/v1beta',
  cerebras: 'https://api.cerebras.ai/v1',
  codestral: 'https://codestral.mistral.ai/v1',
  dashscope: 'https://dashscope.aliyuncs.com/compatible-mode/v1',
  deepinfra: 'https://api.deepinfra.com/v1/openai',
  deepseek: 'https://api.deepseek.com/beta',
  fireworks_ai: 'https://api.fireworks.ai/inference/v1',
  friendliai: 'https://api.friendli.ai/serverless/v1',
  groq: 'https://api.groq.com/openai/v1',
  hyperbolic: 'https://api.hyperbolic.xyz/v1',
  inception: 'https://api.inceptionlabs.ai/v1',
  lambda_ai: 'https://api.lambda.ai/v1',
  minimax: 'https://api.minimax.io',
  mistral: 'https://api.mistral.ai',
  moonshot: 'https://api.moonshot.ai/v1',
  nebius: 'https://api.studio.nebius.ai/v1',
  novita: 'https://api.novita.ai/v3/openai',
  nscale: 'https://inference.api.nscale.com/v1',
  nvidia_nim: 'https://integrate.api.nvidia.com/v1',
  openrouter: 'https://openrouter.ai/api/v1',
  perplexity: 'https://api.perplexity.ai',
  sambanova: 'https://api.sambanova.ai/v1',
  together_ai: 'https://api.together.ai/v1',
  vercel_ai_gateway: 'https://ai-gateway.vercel.sh/v1',
  volcengine: 'https://ark.cn-beijing.volces.com/api/v3',
  xai: 'https://api.x.ai/v1',
  zai: 'https://api.z.ai/api/paas/v4',
  digitalocean: 'https://inference.do-ai.run/v1',
  openhands: 'https://llm-proxy.app.all-hands.dev',
};

/**
 * The provider that LiteLLM selects by the text before the first slash. A name without a slash is
 * known only for OpenAI and Anthropic.
 */
function providerOf(model: string): string | undefined {
  if (model.includes('/')) return model.slice(0, model.indexOf('/'));
  if (/^(gpt-|chatgpt-|o\d|codex-)/.test(model)) return 'openai';
  return model.startsWith('claude-') ? 'anthropic' : undefined;
}

/** OpenHands takes the first URL for the default one. */
const withVersion = (base: string, provider: string | undefined): string =>
  provider === 'openai' && base === 'https://api.openai.com' ? `${base}/v1` : base;

/**
 * Returns the URL of a request. A version that the upstream ends with and the path begins with
 * counts once, as for LiteLLM with `mistral/` and `https://api.mistral.ai/v1`.
 * @param path What the agent has appended to the relay's address, with a slash at its beginning.
 */
export function upstreamUrlOf(upstream: string, path: string): string {
  const [version = ''] = /(?<!\/)\/v\d[a-z0-9]*$/.exec(upstream) ?? [];
  return `${upstream}${version !== '' && path.startsWith(`${version}/`) ? path.slice(version.length) : path}`;
}
