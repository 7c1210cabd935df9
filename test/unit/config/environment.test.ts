import { readGatewayConfig, readOperatorConfig } from '../../../src/config/cluster.ts';
import { readUpConfig } from '../../../src/config/up.ts';

describe('settings', () => {
  it('have defaults, and an empty variable is none', () => {
    expect(readUpConfig({ PORT: '', DATA_DIR: '' })).toMatchObject({
      PORT: 3000,
      DATA_DIR: './.data',
      LEGACY_API: true,
      LOG_LEVEL: 'info',
    });
  });

  it('name every variable that is wrong, with what is allowed', () => {
    expect(() => readUpConfig({ PORT: '-1', LOG_LEVEL: 'loud', PUBLIC_URL: 'ftp://x', LEGACY_API: 'perhaps' })).toThrow(
      /^(?=[^]*PORT: )(?=[^]*LOG_LEVEL: .*error.*warn.*info.*debug)(?=[^]*PUBLIC_URL: must be an http or https URL)(?=[^]*LEGACY_API: )/,
    );
  });

  it('bound how long a pause waits for an agent', () => {
    expect(readOperatorConfig({ MASTER_KEY_FILES: 'key' }).PAUSE_TIMEOUT_SECONDS).toBe(15);
    expect(readUpConfig({ PAUSE_TIMEOUT_SECONDS: '0.5' }).PAUSE_TIMEOUT_SECONDS).toBe(0.5);
    expect(() => readUpConfig({ PAUSE_TIMEOUT_SECONDS: '0' })).toThrow(/^PAUSE_TIMEOUT_SECONDS: must be more than 0/);
  });

  it('bound how long git hosts are asked', () => {
    expect(readUpConfig({})).toMatchObject({ GIT_CHECK: true, GIT_CHECK_SECONDS: 5 });
    expect(readUpConfig({ GIT_CHECK: 'false', GIT_CHECK_SECONDS: '0.2' })).toMatchObject({ GIT_CHECK: false, GIT_CHECK_SECONDS: 0.2 });
    expect(() => readUpConfig({ GIT_CHECK_SECONDS: '0' })).toThrow(/^GIT_CHECK_SECONDS: must be more than 0/);
    expect(() => readUpConfig({ GIT_CHECK_SECONDS: '31' })).toThrow(/^GIT_CHECK_SECONDS: must be at most 30/);
  });

  it.each([
    ['{"forge":"https://git.example"}', true],
    ['{"local":"file:///srv/git"}', true],
    ['{"forge":"ssh://git.example"}', false],
    ['[]', false],
    ['{', false],
  ])('take GIT_HOSTS %s: %s', (text, accepted) => {
    const read = () => readUpConfig({ GIT_HOSTS: text });
    if (accepted) expect(read().GIT_HOSTS).toEqual(JSON.parse(text));
    else expect(read).toThrow(/^GIT_HOSTS/);
  });

  it.each([
    ['*', ['*']],
    ['https://ui.example.com, http://127.0.0.1:3001', ['https://ui.example.com', 'http://127.0.0.1:3001']],
    ['', []],
    ['https://ui.example.com/', undefined],
    ['ui.example.com', undefined],
    ['null', undefined],
  ])('take CORS_ORIGINS "%s": %j', (text, expected) => {
    const read = () => readUpConfig({ CORS_ORIGINS: text }).CORS_ORIGINS;
    if (expected !== undefined) expect(read()).toEqual(expected);
    else expect(read).toThrow(/^CORS_ORIGINS\.0: must be \* or an origin/);
  });

  it.each([
    [{ RATE_LIMIT_READS: '19' }, 'RATE_LIMIT_READS: must be at least 20, or 0 for no limit'],
    [{ RATE_LIMIT_WRITES: '-1' }, 'RATE_LIMIT_WRITES: must be at least 0'],
    [{ API_KEY_MAX_LIFETIME_DAYS: '-1' }, 'API_KEY_MAX_LIFETIME_DAYS: must be at least 0'],
    [{ LLM_MODEL: 'huggingface/https://models.example' }, 'LLM_MODEL: must be the name of a model'],
    [{ MAX_CONNECTIONS: '0' }, 'MAX_CONNECTIONS: must be more than 0'],
    [{ TRUSTED_PROXIES: '10.0.0.0/8,proxy.example' }, 'TRUSTED_PROXIES.1: must be an address or a range like 10.0.0.0/8'],
  ])('bound what clients may do: %j', (environment, message) => {
    expect(() => readUpConfig(environment)).toThrow(message);
  });

  it('may switch limits off', () => {
    const off = { RATE_LIMIT_READS: 0, RATE_LIMIT_WRITES: 0, RATE_LIMIT_FAILED_KEYS: 0, MAX_REQUESTS: 0, OVERLOAD_DELAY_MS: 0 };
    const environment = Object.fromEntries(Object.keys(off).map((name) => [name, '0']));
    expect(readUpConfig(environment)).toMatchObject(off);
  });

  it('of a cluster need master keys', () => {
    expect(() => readGatewayConfig({})).toThrow('MASTER_KEY_FILES: must name at least one file');
    expect(readOperatorConfig({ MASTER_KEY_FILES: '/a,/b' })).toMatchObject({ MASTER_KEY_FILES: ['/a', '/b'], HEALTH_PORT: 8081 });
  });
});
