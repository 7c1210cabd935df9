import type {
  AgentCallOptions,
  AgentClient,
  AgentConversation,
  AgentEndpoint,
  NewAgentConversation,
} from './agent.ts';
import { AgentError } from './errors.ts';
import type { AgentAnswer } from './http.ts';
import { maxPageBytes, type OpenHandsApi } from './openhands-api.ts';
import { conversationOf, createBodyOf, secretsOf, uidTag } from './openhands-mapping.ts';
import * as wire from './wire.ts';

/**
 * Maximum time within which the call that created a conversation may still add its first message.
 */
const createSettleMs = 3000;

type Client = Pick<AgentClient, 'conversation' | 'sendMessage' | 'serverInfo' | 'userMessages'>;

interface Creation {
  readonly endpoint: AgentEndpoint;
  readonly conversation: NewAgentConversation;
  readonly timeoutMs: number;
  readonly options: AgentCallOptions | undefined;
}

/** The call `createConversation` of `AgentClient`. */
export async function create(
  client: Client,
  api: OpenHandsApi,
  creation: Creation,
): Promise<{ readonly created: boolean; readonly status: AgentConversation }> {
  const { endpoint, conversation, timeoutMs, options } = creation;
  const { message, id } = conversation;
  await assertAble(client, api, creation);
  // An initial message always starts a run; a message with `run: false` needs a call of its own.
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
  // 200: the conversation existed before, perhaps by a call whose answer was lost or was a 500. The
  // agent ignores the body and its message.
  if (!created) {
    // The events decide, because the stored snapshot may lag behind them.
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
 * Checks model and tools before the agent does: an agent server without a model takes a default one
 * without a key and retries for two minutes, and answers an unknown tool by a 500 that leaves a
 * conversation without a message.
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

/** Throws when the agent has the conversation of another resource under the same id. */
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

/**
 * Both times are of the agent's clock. An unknown time counts as old, so that no start waits
 * forever.
 */
function mayBeUnderWay({ body, dateMs }: AgentAnswer<wire.ConversationInfo>): boolean {
  const createdMs = Date.parse(body.created_at ?? '');
  return dateMs !== undefined && !Number.isNaN(createdMs) && dateMs - createdMs < createSettleMs;
}
