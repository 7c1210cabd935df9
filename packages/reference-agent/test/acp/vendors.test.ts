import { acpVendors, setUpOf } from '../../src/acp/vendors.ts';
import { acpVendorOf } from '../../src/settings.ts';

const model = { name: 'gpt-"5"', baseUrl: 'http://models/v1', apiKey: 'key' };

describe('the set-up of an agent', () => {
  it('has the settings of the model where the agent reads them', () => {
    const codex = setUpOf(acpVendors.codex, model);
    expect(codex.env).toEqual({ OPENAI_API_KEY: 'key' });
    expect(codex.files['.codex/config.toml']).toContain('model = "gpt-\\"5\\""');
    const opencode = setUpOf(acpVendors.opencode, model).files['.config/opencode/opencode.json'];
    expect(JSON.parse(opencode ?? '')).toMatchObject({
      model: 'configured/gpt-"5"',
      provider: { configured: { options: { baseURL: 'http://models/v1', apiKey: 'key' } } },
    });
    expect(setUpOf(acpVendors.gemini, model).command.at(-1)).toBe('--model=gpt-"5"');
  });

  it('leaves out what is not set', () => {
    const none = { name: undefined, baseUrl: undefined, apiKey: undefined };
    expect(setUpOf(acpVendors.codex, none)).toEqual({
      command: ['codex-acp'],
      env: {},
      files: {},
    });
    expect(setUpOf(acpVendors.gemini, none).command).toEqual(['gemini', '--acp']);
    expect(setUpOf(acpVendors.claude, none).env).not.toHaveProperty('ANTHROPIC_BASE_URL');
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
    [{ ACP_AGENT: 'codec' }, 'ACP_AGENT must be one of codex, claude, qwen, opencode, gemini'],
    [{ ACP_COMMAND: 'my-agent' }, 'ACP_COMMAND must be a JSON list of texts, the program first'],
    [{ ACP_COMMAND: '[]' }, 'ACP_COMMAND must be a JSON list of texts, the program first'],
  ])('is refused: %j', (env, message) => {
    expect(() => acpVendorOf(env)).toThrow(message);
  });
});
