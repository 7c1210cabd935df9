import { CloudClient } from '@openhands/typescript-client/clients';
import { conversations } from '../../../src/resources/conversation.ts';
import { namespace, TestGateway } from '../../support/gateway/test-gateway.ts';

const start = '/api/v1/app-conversations';
const initial_message = { content: [{ type: 'text', text: 'Hello' }] };

describe('names that the service does not know', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await TestGateway.start();
  });
  afterAll(() => gateway.stop());

  it('do not start a conversation without its repository', async () => {
    const answer = await gateway.post(start, { initial_message, selected_repo: 'acme/shop' });
    expect(answer).toMatchObject({ status: 422, json: { code: 'invalid-request' } });
    const { detail } = answer.json as { readonly detail: string };
    expect(detail).toMatch(/^body\.selected_repo is not a known field; known here: /);
    expect(detail).toContain('selected_repository');
    expect((await gateway.client.list(conversations, { namespace })).items).toEqual([]);
  });

  it.each<[string, string, unknown, string]>([
    ['POST', `${start}/stream-start`, { initial_message, branch: 'x' }, 'body.branch'],
    [
      'POST',
      start,
      { initial_message: { ...initial_message, texts: 'x' } },
      'body.initial_message.texts',
    ],
    [
      'POST',
      start,
      { initial_message: { content: [{ type: 'text', text: 'x', txt: 'y' }] } },
      'body.initial_message.content[0].txt',
    ],
    ['POST', `${start}?dry_run=true`, { initial_message }, 'query.dry_run'],
    ['GET', `${start}/search?page=2`, undefined, 'query.page'],
    ['GET', `${start}?id=${'0'.repeat(32)}&ids=${'0'.repeat(32)}`, undefined, 'query.id'],
    ['GET', '/api/v1/sandboxes/search?status=RUNNING', undefined, 'query.status'],
    ['GET', '/api/v1/sandboxes/x/settings/secrets?page=2', undefined, 'query.page'],
    ['GET', '/api/v1/quota?owner=bob', undefined, 'query.owner'],
    ['GET', '/api/conversations?offset=2', undefined, 'query.offset'],
    ['POST', '/api/v1/sandboxes', { sandbox_spec_id: 'default' }, 'body.sandbox_spec_id'],
    ['POST', '/api/v1/sandboxes/x/pause', { force: true }, 'body.force'],
    ['POST', '/api/v1/sandboxes/x/resume', { runs: true }, 'body.runs'],
    ['POST', '/api/keys', { name: 'x', expires: '2030-01-01' }, 'body.expires'],
    ['POST', '/api/v1/secrets', { name: 'X', value: 'y', owner: 'z' }, 'body.owner'],
    ['POST', '/api/v1/settings', { model: 'x' }, 'body.model'],
    [
      'POST',
      '/api/v1/settings',
      { mcp_config: { docs: { uri: 'https://x' } } },
      'body.mcp_config.docs.uri',
    ],
  ])('are refused by their names: %s %s', async (method, path, body, name) => {
    const answer = await gateway.send(method, path, body === undefined ? {} : { body });
    expect(answer).toMatchObject({ status: 422, json: { code: 'invalid-request' } });
    const { errors } = answer.json as { readonly errors: readonly { readonly path: string }[] };
    expect(errors.map(({ path: at }) => at)).toContain(name);
  });

  it('are known where published clients send them, and change nothing', async () => {
    // The body of the official web UI.
    const web = {
      initial_message,
      title: null,
      selected_repository: null,
      selected_branch: null,
      git_provider: null,
      plugins: null,
      parent_conversation_id: null,
      sandbox_id: null,
      agent_profile_id: null,
      trigger: 'gui',
    };
    const client = new CloudClient({ host: gateway.url, apiKey: gateway.alice });
    const task = await client.createConversation({
      ...web,
      plugins: [{ source: 'x' }],
      processors: [],
      suggested_task: null,
      observability_metadata: { a: 1 },
      observability_tags: ['a'],
      observability_span_name: 'a',
    });
    expect(task.request).not.toHaveProperty('plugins');
    await client.saveSettings({
      agent_settings_diff: { llm: { api_key: 'x', base_url: null }, condenser: { enabled: true } },
      conversation_settings_diff: { max_iterations: 5 },
      app_preferences: {
        language: 'en',
        user_consents_to_analytics: false,
        disabled_skills: [],
        enable_sound_notifications: true,
        title_llm_profile: null,
        enabled_skills: [],
      },
    });
    await client.searchModels({ limit: 1, page_id: 'x', verified__eq: true, provider__eq: 'x' });
    await client.searchProviders({ query: 'x' });
    await client.listSkills();
    await client.getInstallations({ provider: 'github', pageId: 'x' });
    await client.searchRepositories({ provider: 'github', pageId: 'x', installationId: 'x' });
    // PyPI openhands-workspace.
    const me = await gateway.get('/api/v1/users/me?expose_secrets=true');
    expect(me.status).toBe(200);
    const gone = await gateway.send('DELETE', '/api/v1/sandboxes/x?sandbox_id=x', {});
    expect(gone.status).toBe(404);
  });
});
