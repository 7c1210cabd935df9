import type { z } from 'zod';
import { executionStatuses, type ExecutionStatus } from '../resources/conversation.ts';
import { dashedUuid, parseUuid } from '../resources/ids.ts';
import type {
  AgentCommandResult,
  AgentContent,
  AgentConversation,
  AgentMetrics,
  AgentUserMessage,
  AgentWebhook,
  NewAgentConversation,
} from './agent.ts';
import { AgentError } from './errors.ts';
import type { ConversationInfo, commandOutputSchema, messageEventsSchema } from './wire.ts';

export const maxDetailCharacters = 2048;
const maxKeptOutput = 64 * 1024;

const isExecutionStatus = (word: string): word is ExecutionStatus => executionStatuses.some((known) => known === word);

export const contentOf = (content: readonly AgentContent[]): readonly object[] =>
  content.map((part) =>
    part.type === 'image' ? { type: 'image', image_urls: part.imageUrls ?? [] } : { type: 'text', text: part.text ?? '' },
  );

/** The tag with the uid of the resource that an agent's conversation was created for. */
export const uidTag = 'uid';

export function createBodyOf(conversation: NewAgentConversation, { withMessage }: { readonly withMessage: boolean }): object {
  const { llm, message, systemMessageSuffix, hookConfig } = conversation;
  const id = parseUuid(conversation.id);
  if (id === undefined) throw new AgentError('refused', 'The conversation id is not a UUID.');
  return {
    conversation_id: dashedUuid(id),
    workspace: { working_dir: conversation.workingDir },
    agent_settings: {
      ...(llm === undefined
        ? {}
        : {
            llm: {
              model: llm.model,
              ...(llm.baseUrl === undefined ? {} : { base_url: llm.baseUrl }),
              ...(llm.apiKey === undefined ? {} : { api_key: llm.apiKey }),
            },
          }),
      agent_context: {
        load_project_skills: conversation.loadProjectSkills ?? true,
        ...(systemMessageSuffix === undefined ? {} : { system_message_suffix: systemMessageSuffix }),
      },
    },
    ...(withMessage && message !== undefined
      ? { initial_message: { role: message.role ?? 'user', content: contentOf(message.content) } }
      : {}),
    ...(hookConfig === undefined ? {} : { hook_config: hookConfig }),
    tags: {
      ...Object.fromEntries(Object.entries(conversation.tags ?? {}).filter(([key]) => /^[a-z0-9]+$/.test(key))),
      ...(conversation.uid === undefined ? {} : { [uidTag]: conversation.uid }),
    },
    secrets: Object.fromEntries(Object.entries(conversation.secrets ?? {}).map(([name, value]) => [name, { kind: 'StaticSecret', value }])),
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

export function conversationOf(info: ConversationInfo): AgentConversation {
  const status = info.execution_status;
  return {
    id: info.id.replaceAll('-', '').toLowerCase(),
    executionStatus: isExecutionStatus(status) ? status : undefined,
    reportedStatus: status.slice(0, 64),
    title: info.title ?? undefined,
    createdAt: info.created_at ?? undefined,
    updatedAt: info.updated_at ?? undefined,
    lastUserMessageId: info.last_user_message_id ?? undefined,
    metrics: metricsOf(info),
  };
}

/** In the order of the ids that were asked for: which is which follows from that alone where one is unknown. */
export function conversationsOf(
  infos: readonly (ConversationInfo | null)[],
  ids: readonly string[],
): readonly (AgentConversation | undefined)[] {
  const known = infos.map((info) => (info === null ? undefined : conversationOf(info)));
  if (known.length === ids.length && known.every((conversation, index) => conversation === undefined || conversation.id === ids[index]))
    return known;
  throw new AgentError('malformed', 'The agent answered with other conversations.');
}

function metricsOf({ stats }: ConversationInfo): AgentMetrics | undefined {
  const usages = Object.values(stats?.usage_to_metrics ?? {});
  if (usages.length === 0) return undefined;
  const sum = (value: (usage: (typeof usages)[number]) => number | null | undefined) =>
    usages.reduce((total, usage) => total + (value(usage) ?? 0), 0);
  return {
    accumulatedCost: sum((usage) => usage.accumulated_cost),
    promptTokens: sum((usage) => usage.accumulated_token_usage?.prompt_tokens),
    completionTokens: sum((usage) => usage.accumulated_token_usage?.completion_tokens),
  };
}

/** Nothing in the answer says "timeout": it is exit code -1 after as long as was allowed. */
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

const tailOf = (text: string): string => (text.length <= maxKeptOutput ? text : `… ${text.slice(-maxKeptOutput)}`);

export const userMessageOf = ({ id, timestamp, llm_message }: z.output<typeof messageEventsSchema>['items'][number]): AgentUserMessage => ({
  id,
  timestamp,
  text: llm_message.content.map(({ text }) => text ?? '').join('\n'),
});
