import type { Examples } from '../components.ts';
import {
  conversationId,
  createdAt,
  emptyPage,
  owner,
  pageOf,
  quota,
  sandbox,
  sandboxId,
  success,
  updatedAt,
  usage,
} from './records.ts';

const budget = {
  quota: 'default',
  scope: 'Owner',
  amount: 50,
  currency: 'USD',
  period: 'Month',
  spent: 0.42,
  reserved: 0,
  resets_at: '2026-12-01T00:00:00.000000Z',
};

const spec = {
  id: 'default',
  command: null,
  created_at: createdAt,
  initial_env: {},
  working_dir: '/workspace/project',
  display_name: 'Default',
  description: 'The agent of OpenHands',
  image: 'registry.example/agent:1',
  agent: { kind: 'openhands', name: 'openhands', asks: true },
  default_model: 'openai/gpt-5',
  allowed_models: null,
  invalid_reason: null,
};

const key = {
  id: 'key-7f3a',
  name: 'laptop',
  user_id: owner,
  role: 'user',
  scopes: ['read', 'start'],
  created_at: createdAt,
  last_used_at: null,
  not_before: null,
  expires_at: '2027-11-28T00:00:00.000000Z',
  issued_by: null,
};

const settings = {
  llm_api_key_set: true,
  llm_model: 'openai/gpt-5',
  own_llm_model: null,
  default_llm_model: 'openai/gpt-5',
  provider_tokens_set: { github: null },
  mcp_config: {
    docs: {
      transport: 'http',
      url: 'https://docs.example/mcp',
      headers: { Authorization: '**********' },
    },
  },
  git_user_name: 'Alice',
  git_user_email: 'alice@example.com',
  git_co_author: true,
};
const settingsChange = {
  llm_model: 'openai/gpt-5',
  git_user_name: 'Alice',
  git_user_email: 'alice@example.com',
};

const secret = { name: 'DEPLOY_TOKEN', description: 'For the staging cluster' };
const page = '<!doctype html>…';
const use = {
  active: 3,
  running: 2,
  starting: 1,
  waiting: 1,
  paused: 2,
  finished: 4,
  failed: 0,
  conversations: 12,
  sandboxes: 5,
  stored_bytes: 48_000,
};

export const serviceExamples: Examples = {
  searchSandboxes: { answers: { 200: pageOf(sandbox) } },
  getSandboxes: { answers: { 200: [sandbox, null] } },
  startSandbox: {
    answers: {
      200: {
        ...sandbox,
        status: 'STARTING',
        status_detail: 'Waiting to be admitted.',
        exposed_urls: [],
      },
    },
  },
  pauseSandbox: { answers: { 200: success } },
  resumeSandbox: { body: { run: true }, answers: { 200: success } },
  rotateSandboxKey: { answers: { 200: success } },
  deleteSandbox: { answers: { 200: success } },
  listSandboxSecrets: { answers: { 200: { secrets: [secret] } } },
  getSandboxSecret: { answers: { 200: 'the value' } },
  searchSandboxSpecs: { answers: { 200: pageOf(spec) } },
  getSandboxSpecs: { answers: { 200: [spec, null] } },
  getUser: {
    answers: { 200: { id: owner, email: null, name: null, role: 'user', scopes: key.scopes } },
  },
  getCurrentKey: {
    answers: {
      200: { id: key.id, name: key.name, user_id: owner, auth_type: 'bearer', scopes: key.scopes },
    },
  },
  listKeys: { answers: { 200: [key] } },
  createKey: {
    body: { name: 'laptop', scopes: ['read', 'start'], expires_at: '2027-11-28T00:00:00Z' },
    answers: { 201: { ...key, key: 'co_…' } },
  },
  revokeKey: { answers: { 200: success } },
  getModelKey: { answers: { 200: { key: null } } },
  getQuota: { answers: { 200: quota } },
  getUsage: {
    answers: { 200: { items: [{ key: '2026-11-28', ...usage }], total: usage, budget } },
  },
  getOverview: { answers: { 200: overview() } },
  listOrganizations: { answers: { 200: { items: [], current_org_id: null } } },
  listModelProfiles: { answers: { 200: { profiles: [], active_profile: null } } },
  searchModels: { answers: { 200: emptyPage } },
  searchModelProviders: { answers: { 200: emptyPage } },
  searchGitInstallations: { answers: { 200: emptyPage } },
  getSettings: { answers: { 200: settings } },
  saveSettings: { body: settingsChange, answers: { 200: settings } },
  updateSettings: { body: settingsChange, answers: { 200: settings } },
  getAgentSettings: { answers: { 200: settings } },
  listAgentProfiles: { answers: { 200: { profiles: [], active_agent_profile_id: null } } },
  searchSkills: { answers: { 200: emptyPage } },
  searchSecrets: { answers: { 200: pageOf(secret) } },
  createSecret: { body: { ...secret, value: 'the value' }, answers: { 200: secret, 201: secret } },
  updateSecret: { body: secret, answers: { 200: secret } },
  deleteSecret: { answers: { 200: success } },
  searchRepositories: {
    answers: {
      200: pageOf({
        id: 'acme/shop',
        full_name: 'acme/shop',
        git_provider: 'github',
        is_public: false,
        main_branch: 'main',
      }),
    },
  },
  searchBranches: { answers: { 200: pageOf({ name: 'main', commit_sha: '', protected: false }) } },
  conversationPage: { answers: { 200: page } },
  loginPage: { answers: { 200: page } },
  logout: { answers: { 200: page } },
  authorizeDevice: {
    answers: {
      200: {
        device_code: 'co_…',
        user_code: 'BCDF-GHJK',
        verification_uri: 'https://agents.example/device',
        verification_uri_complete: 'https://agents.example/device?user_code=BCDF-GHJK',
        expires_in: 600,
        interval: 5,
      },
    },
  },
  redeemDevice: {
    answers: { 200: { access_token: 'co_…', token_type: 'Bearer', expires_in: 2_592_000 } },
  },
  devicePage: { answers: { 200: page } },
  answerDevice: { answers: { 200: page } },
  authenticate: { answers: { 200: success } },
  passToAgent: {
    body: {
      host: `https://agents.example/sandboxes/${sandboxId}/AGENT_SERVER`,
      method: 'POST',
      path: `/api/conversations/${conversationId}/pause`,
      headers: { 'X-Session-API-Key': 'the session key of the sandbox' },
      body: null,
    },
    answers: { 200: success },
  },
  dropAnalyticsEvents: { body: {}, answers: {} },
  homePage: { answers: { 200: page } },
  conversationAppPage: { answers: { 200: page } },
  accountPage: { answers: { 200: page } },
  operatePage: { answers: { 200: page } },
  usagePage: { answers: { 200: page } },
  alive: { answers: { 200: { status: 'ok' } } },
  health: { answers: { 200: 'OK' } },
  ready: { answers: { 200: { status: 'ok' } } },
  serverInfo: {
    answers: {
      200: {
        title: 'conversation-operator',
        version: '1.28.0',
        product_version: '0.1.0',
        uptime: 3600,
      },
    },
  },
  openapi: { answers: { 200: { openapi: '3.1.0' } } },
  docs: { answers: { 200: page } },
};

function overview() {
  return {
    generated_at: updatedAt,
    version: '0.1.0',
    uptime_seconds: 3600,
    metrics_url: null,
    leaders: [{ shard: 0, holder: 'operator-6d5f-abcde', renewed_at: updatedAt, is_live: true }],
    caches: [
      {
        kind: 'Conversation',
        objects: 12,
        is_synced: true,
        is_interrupted: false,
        news_age_seconds: 1.5,
      },
    ],
    totals: { ...use, spares: 1 },
    owners: { total: 1, items: [{ ...use, owner, quota: 'default', limit: 10 }] },
    spending: {
      total: 1,
      items: [{ owner, calls: 12, input_tokens: 18_000, output_tokens: 1200, cost: 0.42 }],
    },
    exhausted_budgets: { total: 1, items: [{ ...budget, owner: 'carol', spent: 50 }] },
    upstream_errors: {
      total: 1,
      items: [
        {
          provider: 'api.anthropic.com',
          kind: 'server-error',
          today: 7,
          last_at: updatedAt,
          message: 'The provider answers with status 529.',
        },
      ],
    },
    queue: {
      total: 1,
      items: [
        {
          position: 1,
          sandbox_id: sandboxId,
          conversation_id: conversationId,
          owner,
          reason: 'QuotaExceeded',
          message: 'The quota default allows 10 active sandboxes per owner; 10 are active.',
          since: createdAt,
        },
      ],
    },
    quotas: {
      total: 1,
      items: [
        {
          name: 'default',
          scope: 'Owner',
          owner: null,
          limit: 10,
          on_exceeded: 'PauseOldest',
          auto_resume: 'Unfinished',
          active: 3,
          waiting: 1,
          paused: 2,
          full_owners: 0,
          conflict: null,
        },
      ],
    },
    pools: {
      total: 1,
      items: [
        {
          name: 'default',
          template: 'default',
          wanted: 1,
          ready: 1,
          is_ready: true,
          reason: null,
          message: null,
        },
      ],
    },
    templates: {
      total: 1,
      items: [{ name: 'default', is_valid: true, reason: null, message: null }],
    },
  };
}
