import {
  readGatewayConfig,
  readOperatorConfig,
  readRelayConfig,
} from '../../../src/config/cluster.ts';

const key = { MASTER_KEY_FILES: 'key' };

describe('the relay for models', () => {
  it('is at the gateway, unless MODEL_RELAY says that another process serves it', () => {
    expect(readGatewayConfig(key).MODEL_RELAY).toBe(true);
    expect(readGatewayConfig({ ...key, MODEL_RELAY: 'false' }).MODEL_RELAY).toBe(false);
    expect(() => readGatewayConfig({ ...key, MODEL_RELAY: 'no' })).toThrow(
      'MODEL_RELAY: must be true, false, 1 or 0, not "no"',
    );
  });

  it('has an address of its own only beside that of the callback server', () => {
    const [gateway, models] = ['http://gateway.svc', 'http://models.svc'];
    expect(
      readOperatorConfig({ ...key, AGENT_SIDE_URL: gateway, MODEL_RELAY_URL: models }),
    ).toMatchObject({ AGENT_SIDE_URL: gateway, MODEL_RELAY_URL: models });
    expect(() => readOperatorConfig({ ...key, MODEL_RELAY_URL: models })).toThrow(
      'MODEL_RELAY_URL: needs AGENT_SIDE_URL',
    );
    expect(() =>
      readOperatorConfig({ ...key, AGENT_SIDE_URL: gateway, MODEL_RELAY_URL: 'models.svc' }),
    ).toThrow('MODEL_RELAY_URL: must be an http or https URL');
  });

  it('has settings of models, of its network and of its log, and none of git hosts', () => {
    const config = readRelayConfig({
      ...key,
      GIT_HOSTS: '{"github":"https://user:secret@git.example.com"}',
      HTTPS_PROXY: 'http://proxy:3128',
      MODELS_PRICES: '[{"model":"m","inputPerMillion":1,"outputPerMillion":2}]',
    });
    expect(config).toMatchObject({ HTTPS_PROXY: 'http://proxy:3128', AGENT_SIDE_PORT: 3001 });
    expect(config.MODELS_PRICES).toHaveLength(1);
    expect(JSON.stringify(config)).not.toContain('secret');
  });
});
