import type { ConversationRecord } from '../../presenters/conversation.ts';
import type { StartTask } from '../../presenters/start-task.ts';

/** Records that several examples share: one conversation of one owner, and its objects. */

export const conversationId = '01a206c002c17b79909d617225d2c83b';
export const startTaskId = '5c1d7e9a40b34f2f8a6e0f1b2c3d4e5f';
export const sandboxId = `sbx-${conversationId}`;
export const owner = 'alice';
export const createdAt = '2026-11-28T09:00:00.000000Z';
export const updatedAt = '2026-11-28T09:04:30.000000Z';
export const workingDir = '/workspace/project/shop';

export const success = { success: true };
export const emptyPage = { items: [], next_page_id: null };
export const pageOf = (...items: readonly unknown[]) => ({ items, next_page_id: null });

export const message = {
  role: 'user',
  content: [{ type: 'text', text: 'Fix the flaky test of the cart.' }],
  run: true,
} satisfies StartTask['request']['initial_message'];

export const usage = {
  calls: 12,
  input_tokens: 18_000,
  cached_input_tokens: 9000,
  output_tokens: 1200,
  cost: 0.42,
};

export const conversation: ConversationRecord = {
  id: conversationId,
  created_by_user_id: owner,
  sandbox_id: sandboxId,
  sandbox_status: 'RUNNING',
  sandbox_status_reason: null,
  execution_status: 'running',
  execution_status_detail: null,
  selected_repository: 'acme/shop',
  selected_branch: 'main',
  git_provider: 'github',
  title: 'Fix the flaky test of the cart',
  trigger: null,
  pr_number: [],
  pull_requests: [],
  pending_approval: null,
  lost_answer: null,
  llm_model: 'openai/gpt-5',
  agent_kind: 'openhands',
  agent_name: null,
  last_result: null,
  metrics: {
    accumulated_cost: 0.42,
    accumulated_token_usage: { prompt_tokens: 18_000, completion_tokens: 1200 },
  },
  usage: { ...usage, currency: 'USD', by_model: [{ model: 'gpt-5', ...usage }] },
  model_wait: null,
  parent_conversation_id: null,
  sub_conversation_ids: [],
  public: false,
  tags: { team: 'cart' },
  workspace: { working_dir: workingDir },
  created_at: createdAt,
  updated_at: updatedAt,
  conversation_url: `https://agents.example/sandboxes/${sandboxId}/AGENT_SERVER/api/conversations/${conversationId}`,
  session_api_key: null,
};

export const startTask: StartTask = {
  id: startTaskId,
  created_by_user_id: owner,
  status: 'WORKING',
  detail: null,
  error: null,
  failed_status: null,
  app_conversation_id: null,
  sandbox_id: null,
  agent_server_url: null,
  steps: [],
  request: {
    conversation_id: null,
    initial_message: message,
    selected_repository: 'acme/shop',
    selected_branch: 'main',
    git_provider: 'github',
    title: null,
    trigger: null,
    pr_number: [],
    parent_conversation_id: null,
    llm_model: null,
    agent_type: null,
    system_message_suffix: null,
    tools: null,
    confirmation_policy: null,
    sandbox_id: null,
    sandbox_spec_id: null,
    public: null,
    max_cost: null,
  },
  created_at: createdAt,
  updated_at: createdAt,
};

export const readyTask = {
  ...startTask,
  status: 'READY',
  app_conversation_id: conversationId,
  sandbox_id: sandboxId,
  agent_server_url: `https://agents.example/sandboxes/${sandboxId}/AGENT_SERVER`,
  updated_at: updatedAt,
};

export const sandbox = {
  id: sandboxId,
  created_by_user_id: owner,
  sandbox_spec_id: 'default',
  status: 'RUNNING',
  status_detail: null,
  session_api_key: null,
  exposed_urls: [
    {
      name: 'AGENT_SERVER',
      url: `https://agents.example/sandboxes/${sandboxId}/AGENT_SERVER`,
      port: 8000,
    },
  ],
  created_at: createdAt,
};

export const event = {
  id: '0d3c5a1e-6f5b-4d0f-9a55-3a0c4a1f7b11',
  kind: 'MessageEvent',
  timestamp: '2026-11-28T09:00:02.125000',
  source: 'user',
  llm_message: { role: 'user', content: message.content },
};

export const approval = {
  id: 'b2c1f0',
  conversation_id: conversationId,
  title: 'terminal: npm test -- cart',
  kind: 'execute',
  tool: 'terminal',
  summary: 'terminal\ncommand: npm test -- cart',
  complete: true,
  options: [
    { id: 'approve', name: 'Approve', kind: 'allow_once' },
    { id: 'reject', name: 'Reject', kind: 'reject_once' },
  ],
  decided_by: 'Owner',
  requested_at: updatedAt,
  sandbox_status: 'RUNNING',
  notice: null,
};

export const quota = {
  active: 3,
  waiting: 0,
  queue: [],
  paused: 2,
  quotas: [
    {
      name: 'default',
      scope: 'Owner',
      limit: 10,
      active: 3,
      on_exceeded: 'PauseOldest',
      min_active_seconds: 60,
      auto_resume: 'Unfinished',
    },
  ],
  stored: { conversations: 12, stored_bytes: 48_000, sandboxes: 5 },
  caps: [{ quota: 'default', scope: 'Owner', of: 'conversations', limit: 1000, current: 12 }],
  next_start: {
    outcome: 'admitted',
    reason: 'A new sandbox would be admitted at once.',
    quota: null,
    pauses: [],
    pauses_other_owner: false,
    not_before: null,
  },
};
