import type {
  AccountRecord,
  ConversationRecord,
  QuotaRecord,
  SandboxRecord,
  StartTask,
} from '../../src/web/wire.ts';
import { conversation, startTask } from '../../src/gateway/openapi/examples/records.ts';
import { startTaskIdOf } from '../../src/resources/start-task-id.ts';

/** The id of the conversation with this number. */
export const idOf = (number: number): string => number.toString(16).padStart(32, '0');

const before = (minutes: number): string =>
  new Date(Date.now() - minutes * 60_000).toISOString().replace('Z', '000Z');

/** The account of a person who may do everything that the role user may. */
export const anAccount = (fields: Partial<AccountRecord> = {}): AccountRecord => ({
  id: 'alice',
  email: null,
  name: null,
  role: 'user',
  scopes: ['read', 'start', 'manage', 'secrets'],
  ...fields,
});

/** A conversation whose agent works; its age in minutes is its number. */
export const aConversation = (
  number: number,
  fields: Partial<ConversationRecord> = {},
): ConversationRecord => ({
  ...conversation,
  id: idOf(number),
  sandbox_id: `sbx-${number}`,
  selected_repository: 'acme/app',
  title: `Conversation ${number}`,
  llm_model: null,
  metrics: null,
  usage: null,
  model_wait: null,
  tags: {},
  workspace: { working_dir: '/workspace/project' },
  created_at: before(number),
  updated_at: before(Math.min(number, 3)),
  conversation_url: null,
  ...fields,
});

export const aSandbox = (number: number, fields: Partial<SandboxRecord> = {}): SandboxRecord => ({
  id: `sbx-${number}`,
  created_by_user_id: 'alice',
  sandbox_spec_id: 'default',
  status: 'RUNNING',
  status_detail: null,
  session_api_key: null,
  exposed_urls: [],
  created_at: before(number),
  ...fields,
});

export const aTask = (number: number, fields: Partial<StartTask> = {}): StartTask => ({
  ...startTask,
  id: startTaskIdOf(idOf(number)),
  request: {
    ...startTask.request,
    initial_message: {
      role: 'user',
      content: [{ type: 'text', text: 'Write a test for the parser' }],
      run: true,
    },
    selected_repository: 'acme/app',
    selected_branch: null,
    git_provider: null,
  },
  created_at: before(number),
  updated_at: before(Math.min(number, 1)),
  ...fields,
});

export const aQuota = (fields: Partial<QuotaRecord> = {}): QuotaRecord => ({
  active: 3,
  waiting: 1,
  queue: ['sbx-4'],
  paused: 1,
  quotas: [
    {
      name: 'default',
      scope: 'Owner',
      limit: 4,
      active: 3,
      on_exceeded: 'PauseOldest',
      min_active_seconds: 60,
      auto_resume: 'All',
    },
  ],
  stored: { conversations: 12, stored_bytes: 3_000_000, sandboxes: 7 },
  caps: [{ quota: 'default', scope: 'Owner', of: 'conversations', limit: 200, current: 12 }],
  next_start: {
    outcome: 'pauses',
    reason: 'The start would pause sandbox sbx-2.',
    quota: 'default',
    pauses: [{ sandbox_id: 'sbx-2', conversation_ids: [idOf(2)] }],
    pauses_other_owner: false,
    not_before: null,
  },
  ...fields,
});

/** One conversation of every kind that the list distinguishes. */
export function everyKind(): {
  readonly conversations: readonly ConversationRecord[];
  readonly sandboxes: readonly SandboxRecord[];
  readonly start_tasks: readonly StartTask[];
} {
  const starting = { sandbox_status: 'STARTING', execution_status: null } as const;
  const paused = { sandbox_status: 'PAUSED', execution_status: null } as const;
  const failed = { sandbox_status: 'ERROR', execution_status: null } as const;
  const conversations = [
    aConversation(1, {
      title: 'Clean the build folder before a release',
      execution_status: 'waiting_for_confirmation',
      execution_status_detail: 'Asks whether it may run `rm -rf build`.',
      metrics: {
        accumulated_cost: 0.42,
        accumulated_token_usage: { prompt_tokens: 90_000, completion_tokens: 4_000 },
      },
    }),
    aConversation(2, { title: 'Fix the login of single sign-on users', updated_at: before(0) }),
    aConversation(3, {
      ...starting,
      title: 'Write a test for the parser',
      sandbox_status_reason: 'waiting-for-agent',
      selected_branch: null,
    }),
    aConversation(4, {
      ...starting,
      title:
        'Upgrade the dependencies of every package in the workspace, and remove those that nothing imports any more',
      sandbox_status_reason: 'waiting-for-quota',
    }),
    aConversation(5, {
      ...paused,
      title: 'Write docs',
      sandbox_status_reason: 'quota',
      execution_status: 'paused',
      selected_repository: null,
      selected_branch: null,
    }),
    aConversation(6, { ...paused, title: 'Compare two parsers', sandbox_status_reason: 'user' }),
    aConversation(180, {
      title: 'Remove the deprecated flag',
      execution_status: 'finished',
      updated_at: before(120),
      pr_number: [12],
      metrics: {
        accumulated_cost: 1.9,
        accumulated_token_usage: { prompt_tokens: 900_000, completion_tokens: 40_000 },
      },
    }),
    aConversation(8, {
      ...failed,
      title: 'Port the exporter',
      sandbox_status_reason: 'branch-not-found',
      selected_branch: 'dev',
      sandbox_id: null,
    }),
    aConversation(9, {
      ...failed,
      title: 'Build the new image',
      sandbox_status_reason: 'image-pull-failed',
    }),
    aConversation(2000, {
      title: 'An old experiment',
      sandbox_status: 'MISSING',
      sandbox_status_reason: 'deleted',
      execution_status: null,
      updated_at: before(1900),
    }),
  ];
  const sandboxes = [
    aSandbox(1),
    aSandbox(2),
    aSandbox(3, { status: 'STARTING' }),
    aSandbox(4, {
      status: 'STARTING',
      status_detail: 'Waiting for room: at most 4 of its owner may be active at once.',
    }),
    aSandbox(5, {
      status: 'PAUSED',
      status_detail: `Paused to make room for conversation ${idOf(2)} of the same owner; limit 4.`,
    }),
    aSandbox(6, { status: 'PAUSED', status_detail: 'Paused by its owner.' }),
    aSandbox(180),
    aSandbox(9, {
      status: 'ERROR',
      status_detail: 'The image ghcr.io/acme/agent:2 can not be pulled: not found.',
    }),
  ];
  const start_tasks = [
    aTask(3, { status: 'PREPARING_REPOSITORY', updated_at: before(0.6), sandbox_id: 'sbx-3' }),
    aTask(4, { status: 'WAITING_FOR_SANDBOX', sandbox_id: 'sbx-4' }),
    aTask(8, {
      status: 'ERROR',
      error: 'The repository acme/app has no branch or tag dev.',
      detail: 'The repository acme/app has no branch or tag dev.',
    }),
  ];
  return { conversations, sandboxes, start_tasks };
}
