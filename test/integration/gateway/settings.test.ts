import { sandboxTemplates } from '../../../src/resources/sandbox-template.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';

const id = '01'.repeat(16);

describe('what clients ask for around conversations', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await TestGateway.start({
      gitHosts: { github: 'https://github.com', gitlab: 'https://git.example' },
    });
    await gateway.addConversation(id);
  });
  afterAll(() => gateway.stop());

  const page = (...items: readonly unknown[]) => ({ items, next_page_id: null });
  const main = { name: 'main', commit_sha: '', protected: false };
  const repository = (name: string, provider = 'github') => ({
    id: name,
    full_name: name,
    git_provider: provider,
    is_public: true,
    main_branch: 'main',
  });

  it.each<[string, unknown]>([
    [
      '/api/v1/settings',
      {
        llm_api_key_set: true,
        llm_model: 'default',
        provider_tokens_set: { github: null, gitlab: null },
      },
    ],
    [
      '/api/settings',
      {
        llm_api_key_set: true,
        llm_model: 'default',
        provider_tokens_set: { github: null, gitlab: null },
      },
    ],
    ['/api/agent-profiles', { profiles: [], active_agent_profile_id: null }],
    ['/api/v1/skills/search', page()],
    ['/api/organizations', { items: [], current_org_id: null }],
    ['/api/v1/settings/profiles', { profiles: [], active_profile: null }],
    ['/api/v1/config/models/search?limit=100&provider__eq=openhands', page()],
    ['/api/v1/config/providers/search', page()],
    ['/api/v1/git/installations/search?provider=github&limit=100', page()],
    [`/api/v1/app-conversations/${id}/skills`, { skills: [] }],
    [
      '/api/v1/git/repositories/search?provider=github&query=owner%2Fname&limit=30',
      page(repository('owner/name')),
    ],
    [
      '/api/v1/git/repositories/search?query=https://github.com/owner/name',
      page(repository('owner/name')),
    ],
    [
      '/api/v1/git/repositories/search?provider=gitlab&query=https://git.example/a/b/c',
      page(repository('a/b/c', 'gitlab')),
    ],
    ['/api/v1/git/repositories/search?provider=gitlab&query=https://github.com/owner/name', page()],
    ['/api/v1/git/repositories/search?provider=bitbucket&query=owner/name', page()],
    ['/api/v1/git/repositories/search?provider=github', page()],
    [
      '/api/v1/git/branches/search?provider=github&repository=owner/name&query=&limit=30',
      page(main),
    ],
    [
      '/api/v1/git/branches/search?provider=github&repository=owner/name&query=topic/x',
      page({ ...main, name: 'topic/x' }),
    ],
    ['/api/v1/git/branches/search?provider=github&repository=owner/name&query=--x', page(main)],
  ])('GET %s', async (path, expected) => {
    expect(await gateway.get(path)).toMatchObject({ status: 200, json: expected });
    expect(await gateway.get(path, { key: null })).toMatchObject({ status: 401 });
  });

  it('takes the key in X-Session-API-Key too, as for an agent', async () => {
    const headers = { 'x-session-api-key': gateway.alice };
    expect(await gateway.get('/api/settings', { key: null, headers })).toMatchObject({
      status: 200,
    });
  });

  it('names the model of the default template', async () => {
    const patch = { spec: { agent: { model: 'some-model' } } };
    const updated = await gateway.client.mergePatch(sandboxTemplates, namespace, 'default', patch);
    await gateway.seen(gateway.caches.templates, updated);
    const read = async () => (await gateway.get('/api/v1/settings')).json;
    const byDefault = { llm_model: 'some-model', default_llm_model: 'some-model' };
    expect(await read()).toMatchObject({ ...byDefault, own_llm_model: null });
    const saved = await gateway.post('/api/v1/settings', { llm_model: 'mine' });
    expect(saved.json).toMatchObject({ ...byDefault, llm_model: 'mine', own_llm_model: 'mine' });
    await gateway.post('/api/v1/settings', { llm_model: null });
    expect(await read()).toMatchObject({ ...byDefault, own_llm_model: null });
  });

  it('says a version that clients rely on', async () => {
    const { version } = (await gateway.get('/server_info', { key: null })).json as {
      version: string;
    };
    expect(version.localeCompare('1.28.0', 'en', { numeric: true })).toBeGreaterThanOrEqual(0);
  });
});
