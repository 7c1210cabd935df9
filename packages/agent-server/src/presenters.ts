import { dashedUuid } from '@conversation-operator/base/uuid';
import type { Conversation } from './conversation.ts';
import { textOf, type AgentEvent } from './events.ts';

export function infoOf(conversation: Conversation): object {
  const { meta, log, stats } = conversation;
  const lastTime = log.last === undefined ? meta.createdAt : `${log.last.timestamp}Z`;
  return {
    id: dashedUuid(meta.id),
    workspace: { working_dir: meta.workingDir, kind: 'LocalWorkspace' },
    execution_status: conversation.status,
    title: conversation.title ?? null,
    created_at: meta.createdAt,
    updated_at: lastTime,
    last_user_message_id: conversation.lastUserMessageId ?? null,
    leaf_event_id: log.last?.id ?? null,
    persistence_dir: conversation.folder,
    max_iterations: meta.maxIterations,
    stuck_detection: true,
    // The log stores an action that waits for approval, so a restarted server asks for it again.
    keeps_questions: true,
    confirmation_policy: { kind: meta.confirmationPolicy ?? 'NeverConfirm' },
    security_analyzer: null,
    activated_knowledge_skills: [],
    invoked_skills: [],
    blocked_actions: {},
    blocked_messages: {},
    stats,
    metrics: null,
    tags: meta.tags,
    hook_config: meta.hookConfig ?? null,
    secret_registry: { secret_sources: {} },
    agent: {
      kind: 'Agent',
      llm: {
        model: meta.llm?.model ?? null,
        base_url: meta.llm?.baseUrl ?? null,
        api_key: null,
        usage_id: 'default',
      },
      tools: [{ name: 'terminal', params: {} }],
      include_default_tools: ['FinishTool'],
    },
    agent_state: {},
    sub_conversation_ids: [],
    parent_conversation_id: null,
    runtime_info: null,
  };
}

/** Returns the whole state as an event. New clients get it, and the log never stores it. */
export const fullStateEvent = (conversation: Conversation): object => ({
  id: crypto.randomUUID(),
  timestamp: new Date().toISOString().slice(0, -1),
  source: 'environment',
  kind: 'ConversationStateUpdateEvent',
  key: 'full_state',
  value: infoOf(conversation),
});

/** Returns the agent's last response, from its finish tool or a message. */
export function finalResponseOf(event: AgentEvent | undefined): string {
  if (event?.kind === 'ObservationEvent') return textOf(event.observation.content);
  return event?.kind === 'MessageEvent' ? textOf(event.llm_message.content) : '';
}
