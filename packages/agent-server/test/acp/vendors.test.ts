import { acpVendors, setUpOf, acpSettingsOf, acpVendorOf } from '../../src/acp/vendors.ts';

const model = { name: 'gpt-"5"', baseUrl: 'http://models/v1', apiKey: 'key' };
const free = { workingDir: '/work/"shop"', home: '/state/home', asks: false };

describe('the set-up of an agent', () => {
  it('has the settings of the model where the agent reads them', () => {
    const codex = setUpOf(acpVendors.codex, model, free);
    expect(codex.env).toEqual({ OPENAI_API_KEY: 'key' });
    expect(codex.files['.codex/config.toml']).toContain('model = "gpt-\\"5\\""');
    const opencode = setUpOf(acpVendors.opencode, model, free).files[
      '.config/opencode/opencode.json'
    ];
    expect(JSON.parse(opencode ?? '')).toMatchObject({
      model: 'configured/gpt-"5"',
      provider: { configured: { options: { baseURL: 'http://models/v1', apiKey: 'key' } } },
    });
    expect(setUpOf(acpVendors.gemini, model, free).command.at(-1)).toBe('--model=gpt-"5"');
  });

  it('keeps the settings of a repository from answering questions, where a person answers', () => {
    const asks = { ...free, asks: true };
    const { claude, opencode } = acpVendors;
    const managedSettings = { allowManagedPermissionRulesOnly: true, allowManagedHooksOnly: true };
    expect(setUpOf(claude, model, asks).meta).toMatchObject({
      claudeCode: { options: { settingSources: ['user'], strictMcpConfig: true, managedSettings } },
    });
    expect(setUpOf(claude, model, free).meta).toBeUndefined();
    expect(setUpOf(acpVendors.codex, model, asks).folder).toBe('/work/"shop"/.');
    const qwen = setUpOf(acpVendors.qwen, model, asks);
    expect(qwen.files['.qwen/trusted.json']).toBe('{"/work/\\"shop\\"":"DO_NOT_TRUST"}');
    const gemini = setUpOf(acpVendors.gemini, model, asks);
    expect(gemini.env).toHaveProperty('GEMINI_CLI_TRUST_WORKSPACE', 'false');
    expect([qwen, gemini].map((setUp) => setUp.startsMcpServers)).toEqual([false, false]);
    const asking = setUpOf(opencode, model, asks);
    expect(asking.env).toHaveProperty('OPENCODE_DISABLE_PROJECT_CONFIG', '1');
    expect(setUpOf(opencode, model, free).env).not.toHaveProperty(
      'OPENCODE_DISABLE_PROJECT_CONFIG',
    );
    expect(JSON.parse(asking.files['.config/opencode/opencode.json'] ?? '')).toMatchObject({
      instructions: ['/work/"shop"/AGENTS.md', '/work/"shop"/CLAUDE.md'],
    });
  });

  it('leaves out what is not set', () => {
    const none = { name: undefined, baseUrl: undefined, apiKey: undefined };
    expect(setUpOf(acpVendors.codex, none, free)).toEqual({
      command: ['codex-acp'],
      folder: '/work/"shop"',
      env: {},
      files: {},
      meta: undefined,
      startsMcpServers: true,
    });
    expect(setUpOf(acpVendors.gemini, none, free).command).toEqual(['gemini', '--acp']);
    expect(setUpOf(acpVendors.claude, none, free).env).not.toHaveProperty('ANTHROPIC_BASE_URL');
  });
});

describe('the agent that the environment names', () => {
  it.each([
    [{}, undefined],
    [{ ACP_AGENT: '' }, undefined],
    [{ ACP_AGENT: 'codex' }, ['codex-acp']],
    [{ ACP_COMMAND: '["my-agent","--acp"]' }, ['my-agent', '--acp']],
  ])('%j', (env, command) => {
    expect(acpVendorOf(env)?.command).toEqual(command);
  });

  it.each([
    [
      { ACP_AGENT: 'codec' },
      'ACP_AGENT must be one of codex, claude, qwen, opencode, gemini, kimi',
    ],
    [{ ACP_COMMAND: 'my-agent' }, 'ACP_COMMAND must be a JSON list of texts, the program first'],
    [{ ACP_COMMAND: '[]' }, 'ACP_COMMAND must be a JSON list of texts, the program first'],
  ])('is refused: %j', (env, message) => {
    expect(() => acpVendorOf(env)).toThrow(message);
  });
});

describe('the settings of an agent', () => {
  const agent = { ACP_AGENT: 'codex' };
  const stdio = { name: 'files', command: '/bin/mcp' };
  const http = { type: 'http', name: 'web', url: 'https://mcp/', headers: [] };

  it('are absent without an agent', () => {
    expect(acpSettingsOf({ ACP_MODE: 'plan' })).toBeUndefined();
  });

  it.each<[string, Record<string, string>, object]>([
    ['nothing', {}, { allowAlways: false, mcpServers: [], mode: undefined, env: {} }],
    ['options for ever', { ACP_ALLOW_ALWAYS: 'true' }, { allowAlways: true }],
    ['a mode', { ACP_MODE: 'plan' }, { mode: 'plan' }],
    ['an environment', { ACP_ENV: '{"TOKEN":"t"}' }, { env: { TOKEN: 't' } }],
    [
      'MCP servers',
      { ACP_MCP_SERVERS: JSON.stringify([stdio, http]) },
      { mcpServers: [{ ...stdio, args: [], env: [] }, http] },
    ],
  ])('have %s', (_case, env, settings) => {
    expect(acpSettingsOf({ ...agent, ...env })).toMatchObject(settings);
  });

  it.each<[Record<string, string>, string]>([
    [{ ACP_ALLOW_ALWAYS: 'yes' }, 'ACP_ALLOW_ALWAYS must be true or false'],
    [{ ACP_ENV: 'TOKEN=t' }, 'ACP_ENV must be a JSON object of texts'],
    [{ ACP_ENV: '{"TOKEN":1}' }, 'ACP_ENV must be a JSON object of texts; the value at TOKEN'],
    [{ ACP_MCP_SERVERS: '{}' }, 'ACP_MCP_SERVERS must be a JSON list of MCP servers'],
    [
      { ACP_MCP_SERVERS: JSON.stringify([stdio, { ...http, url: 'file:///' }]) },
      'ACP_MCP_SERVERS must be a JSON list of MCP servers; the value at 1',
    ],
  ])('are refused: %j', (env, text) => {
    expect(() => acpSettingsOf({ ...agent, ...env })).toThrow(text);
  });
});
