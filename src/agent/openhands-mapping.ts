import type { z } from 'zod';
import {
  executionStatuses,
  maxTitleLength,
  type ExecutionStatus,
} from '../resources/conversation-status.ts';
import { dashedUuid, parseUuid } from '@conversation-operator/base/uuid';
import type { ConfirmationPolicy } from '../resources/agent-settings.ts';
import type {
  AgentCommandResult,
  AgentContent,
  AgentConversation,
  AgentFailure,
  AgentLlm,
  AgentMcpServer,
  AgentSecret,
  AgentMetrics,
  AgentUserMessage,
  AgentWebhook,
  NewAgentConversation,
  AgentCallOptions,
  AgentClient,
  AgentEndpoint,
} from './agent.ts';
import { AgentError } from './errors.ts';
import { plainText } from '../resources/plain-text.ts';
import type {
  ConversationInfo,
  commandOutputSchema,
  errorEventsSchema,
  messageEventsSchema,
  stateUpdatesSchema,
} from './wire.ts';
import type { AgentAnswer } from './http.ts';
import { maxPageBytes, type OpenHandsApi } from './openhands-api.ts';
import * as wire from './wire.ts';

const maxDetailCharacters = 2048;
const maxKeptOutput = 64 * 1024;

const isExecutionStatus = (status: string): status is ExecutionStatus =>
  executionStatuses.some((known) => known === status);

export const contentOf = (content: readonly AgentContent[]): readonly object[] =>
  content.map((part) =>
    part.type === 'image'
      ? { type: 'image', image_urls: part.imageUrls ?? [] }
      : { type: 'text', text: part.text ?? '' },
  );

/** Name of the tag that has the UID of the Conversation in an agent's conversation. */
export const uidTag = 'uid';

/** The JSON of the request leaves out undefined fields. */
export const llmOf = ({ model, baseUrl, apiKey }: AgentLlm): object => ({
  model,
  base_url: baseUrl,
  api_key: apiKey,
});

/** The agent ignores an unreachable MCP server, and works without the tools of that server. */
const mcpConfigOf = (servers: readonly AgentMcpServer[] = []): object | undefined =>
  servers.length === 0
    ? undefined
    : Object.fromEntries(servers.map(({ name, ...server }) => [name, server]));

/** The model rates the risk of each action. Without ratings, `ConfirmRisky` asks at every step. */
const analyzerOf = (policy: ConfirmationPolicy | undefined): object | undefined =>
  policy === 'ConfirmRisky' ? { kind: 'LLMSecurityAnalyzer' } : undefined;

/** Secrets of the OpenHands protocol that the agent reads from a URL. */
export const lookupsOf = (secrets: readonly AgentSecret[] = []): object =>
  Object.fromEntries(
    secrets.map(({ name, url, headers }) => [name, { kind: 'LookupSecret', url, headers }]),
  );

export function createBodyOf(
  conversation: NewAgentConversation,
  { withMessage }: { readonly withMessage: boolean },
): object {
  const { llm, message, tools, confirmationPolicy, uid } = conversation;
  const id = parseUuid(conversation.id);
  if (id === undefined) throw new AgentError('refused', 'The conversation id is not a UUID.');
  return {
    conversation_id: dashedUuid(id),
    workspace: { working_dir: conversation.workingDir },
    agent_settings: {
      llm: llm && llmOf(llm),
      tools: tools?.map((name) => ({ name })),
      mcp_config: mcpConfigOf(conversation.mcpServers),
      agent_context: {
        load_project_skills: true,
        system_message_suffix: conversation.systemMessageSuffix,
      },
    },
    initial_message:
      withMessage && message !== undefined
        ? { role: message.role ?? 'user', content: contentOf(message.content) }
        : undefined,
    max_iterations: conversation.maxIterations,
    confirmation_policy: confirmationPolicy && { kind: confirmationPolicy },
    security_analyzer: analyzerOf(confirmationPolicy),
    hook_config: conversation.hookConfig,
    tags: { [uidTag]: uid },
    secrets: lookupsOf(conversation.secrets),
  };
}

export const webhookOf = (webhook: AgentWebhook): object => ({
  base_url: webhook.baseUrl,
  headers: webhook.headers ?? {},
  event_buffer_size: webhook.eventBufferSize,
  flush_delay: webhook.flushDelaySeconds,
  num_retries: webhook.retries,
  retry_delay: webhook.retryDelaySeconds,
  max_queue_size: webhook.maxQueuedEvents,
  max_queue_bytes: webhook.maxQueuedBytes,
  max_batch_bytes: webhook.maxBatchBytes,
});

/** Throws `malformed` if the answer is about another conversation. */
export function conversationOf(info: ConversationInfo, wantedId: string): AgentConversation {
  const status = info.execution_status;
  const id = parseUuid(info.id);
  if (id === undefined || id !== parseUuid(wantedId)) {
    throw new AgentError('malformed', 'The agent answered about another conversation.');
  }
  const title = plainText(info.title ?? '', maxTitleLength).trim();
  return {
    id,
    executionStatus: isExecutionStatus(status) ? status : undefined,
    reportedStatus: plainText(status, 64),
    title: title === '' ? undefined : title,
    updatedAt: timeOf(info.updated_at),
    lastUserMessageId: info.last_user_message_id ?? undefined,
    ...(info.keeps_questions === true ? { keepsQuestions: true } : {}),
    metrics: metricsOf(info),
    llm: llmIn(info),
  };
}

/** Conversations in the order of `ids`. The agent answers null for an unknown conversation. */
export function conversationsOf(
  infos: readonly (ConversationInfo | null)[],
  ids: readonly string[],
): readonly (AgentConversation | undefined)[] {
  if (infos.length !== ids.length)
    throw new AgentError('malformed', 'The agent answered about other conversations.');
  return ids.map((id, index) => {
    const info = infos[index] ?? undefined;
    return info === undefined ? undefined : conversationOf(info, id);
  });
}

function llmIn({ agent }: ConversationInfo): AgentConversation['llm'] {
  const model = agent?.llm?.model ?? undefined;
  return model === undefined ? undefined : { model, baseUrl: agent?.llm?.base_url ?? undefined };
}

function metricsOf({ stats }: ConversationInfo): AgentMetrics | undefined {
  const usages = Object.values(stats?.usage_to_metrics ?? {});
  if (usages.length === 0) return undefined;
  const sum = (
    value: (usage: (typeof usages)[number]) => number | null | undefined,
    most: number,
  ) =>
    Math.min(
      usages.reduce((total, usage) => total + Math.max(value(usage) ?? 0, 0), 0),
      most,
    );
  return {
    accumulatedCost: sum((usage) => usage.accumulated_cost, maxCost),
    promptTokens: Math.floor(
      sum((usage) => usage.accumulated_token_usage?.prompt_tokens, Number.MAX_SAFE_INTEGER),
    ),
    completionTokens: Math.floor(
      sum((usage) => usage.accumulated_token_usage?.completion_tokens, Number.MAX_SAFE_INTEGER),
    ),
  };
}

const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/;

/** Undefined for a text that is no RFC 3339 time: the API server would refuse such a text. */
const timeOf = (text: string | null | undefined): string | undefined =>
  text != null && rfc3339.test(text) && Number.isFinite(Date.parse(text)) ? text : undefined;

/** Maximum cost in US dollars, which bounds the digits of the stored number. */
const maxCost = 1e12;

export const failureOf = ({
  code,
  detail,
}: z.output<typeof errorEventsSchema>['items'][number]): AgentFailure => ({
  code: plainText(code ?? '', 64).trim() || 'Unknown',
  detail: plainText(detail ?? '', maxDetailCharacters),
});

export const secretsOf = ({
  llm,
  secrets = [],
  mcpServers = [],
}: Pick<NewAgentConversation, 'llm' | 'secrets' | 'mcpServers'>): readonly string[] => [
  ...(llm?.apiKey === undefined ? [] : [llm.apiKey]),
  ...secrets.flatMap(({ headers }) => Object.values(headers)),
  ...mcpServers.flatMap((server) => Object.values('url' in server ? server.headers : server.env)),
];

/** The agent reports a time-out only as exit code -1. `tookMs` tells it from other failures. */
export function commandResultOf(
  output: z.output<typeof commandOutputSchema>,
  { tookMs, timeoutSeconds }: { readonly tookMs: number; readonly timeoutSeconds: number },
): AgentCommandResult {
  const exitCode = output.exit_code ?? -1;
  return {
    exitCode,
    stdout: tailOf(output.stdout ?? ''),
    stderr: tailOf(output.stderr ?? ''),
    timedOut: exitCode === -1 && tookMs >= timeoutSeconds * 1000 - 50,
  };
}

const tailOf = (text: string): string =>
  text.length <= maxKeptOutput ? text : `… ${text.slice(-maxKeptOutput)}`;

export const userMessageOf = ({
  id,
  timestamp,
  llm_message,
}: z.output<typeof messageEventsSchema>['items'][number]): AgentUserMessage => ({
  id,
  timestamp,
  text: llm_message.content.map(({ text }) => text ?? '').join('\n'),
});

/** Maximum time between the two events of a failed run: its status `error` and its error. */
const oneGoMs = 1_000;

/** Whether an event reports a run that starts or fails after `since`, a UTC time without zone. */
export const isStartOrFailureAfter =
  (since: string) =>
  ({ key, value, timestamp = '' }: z.output<typeof stateUpdatesSchema>['items'][number]): boolean =>
    key === 'execution_status' &&
    (value === 'running' ||
      (value === 'error' && Date.parse(`${timestamp}Z`) - Date.parse(`${since}Z`) > oneGoMs));

/** Maximum time in which the agent may add the first message to a new conversation. */
const createSettleMs = 3000;

type Client = Pick<AgentClient, 'conversation' | 'sendMessage' | 'serverInfo' | 'userMessages'>;

interface Creation {
  readonly endpoint: AgentEndpoint;
  readonly conversation: NewAgentConversation;
  readonly timeoutMs: number;
  readonly options: AgentCallOptions | undefined;
}

/** Implements `AgentClient.createConversation`. */
export async function create(
  client: Client,
  api: OpenHandsApi,
  creation: Creation,
): Promise<{ readonly created: boolean; readonly status: AgentConversation }> {
  const { endpoint, conversation, timeoutMs, options } = creation;
  const { message, id } = conversation;
  await assertAble(client, api, creation);
  // An initial message always starts a run. A message with `run: false` needs a second call.
  const runs = message !== undefined && message.run !== false;
  const answer = await api.call(endpoint, options, {
    method: 'POST',
    path: '/api/conversations',
    body: createBodyOf(conversation, { withMessage: runs }),
    answer: wire.conversationInfoSchema,
    maxBodyBytes: maxPageBytes,
    timeoutMs,
    secrets: secretsOf(conversation),
  });
  const created = answer.status === 201;
  if (!created) assertSameUid(answer, conversation.uid);
  const status = conversationOf(answer.body, id);
  if (message === undefined || (created && runs)) return { created, status };
  // 200: the conversation existed before, for example because the answer to an earlier call was
  // lost. The agent has then ignored the body with its message.
  if (!created) {
    // The events tell whether a message exists, because the stored status may be older.
    const hasMessage =
      status.lastUserMessageId !== undefined ||
      (await client.userMessages(endpoint, id, 1, options)).length > 0;
    if (hasMessage) return { created, status };
    if (mayBeUnderWay(answer))
      throw new AgentError('busy', 'The conversation is just being created.', { status: 200 });
  }
  await client.sendMessage(endpoint, id, message, options);
  return { created, status: (await client.conversation(endpoint, id, options)) ?? status };
}

/**
 * Checks model and tools before the agent does. Without a model, openhands-agent-server uses a
 * default model without a key and retries for two minutes. For an unknown tool, the server answers
 * 500 and leaves a conversation without a message.
 */
async function assertAble(
  client: Client,
  api: OpenHandsApi,
  { endpoint, conversation: { llm, tools = [] }, options }: Creation,
): Promise<void> {
  if (llm === undefined && (await client.serverInfo(endpoint, options)).needsModel)
    throw new AgentError('unconfigured', 'The agent needs a model, and none is configured.');
  if (tools.length === 0) return;
  const known = await api.get(endpoint, options, '/api/tools/', wire.toolNamesSchema);
  const missing = tools.filter((name) => !known.includes(name));
  if (missing.length > 0) throw new AgentError('refused', `It has no tool ${missing.join(', ')}.`);
}

/** Throws if the agent has a conversation with this id for another Conversation resource. */
function assertSameUid(
  { body, status }: AgentAnswer<wire.ConversationInfo>,
  uid: string | undefined,
): void {
  const known = body.tags?.[uidTag];
  if (typeof known === 'string' && uid !== undefined && known !== uid) {
    const text = 'An earlier conversation of this id has been in this sandbox.';
    throw new AgentError('refused', text, { status });
  }
}

/** Compares times of the agent's clock. An unknown time counts as old, so nobody waits forever. */
function mayBeUnderWay({ body, dateMs }: AgentAnswer<wire.ConversationInfo>): boolean {
  const createdMs = Date.parse(body.created_at ?? '');
  return dateMs !== undefined && !Number.isNaN(createdMs) && dateMs - createdMs < createSettleMs;
}
