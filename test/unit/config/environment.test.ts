import { readGatewayConfig, readOperatorConfig } from '../../../src/config/cluster.ts';
import { readUpConfig } from '../../../src/config/up.ts';

describe('settings', () => {
  it('have defaults, and an empty variable is none', () => {
    expect(readUpConfig({ PORT: '', DATA_DIR: '' })).toMatchObject({
      PORT: 3000,
      DATA_DIR: './.data',
      LEGACY_API: true,
      UI: true,
      LOG_LEVEL: 'info',
    });
  });

  it('name every variable that is wrong, with what is allowed', () => {
    expect(() =>
      readUpConfig({ PORT: '-1', LOG_LEVEL: 'loud', PUBLIC_URL: 'ftp://x', LEGACY_API: 'perhaps' }),
    ).toThrow(
      /^(?=[^]*PORT: )(?=[^]*LOG_LEVEL: .*error.*warn.*info.*debug)(?=[^]*PUBLIC_URL: must be an http or https URL)(?=[^]*LEGACY_API: )/,
    );
  });

  it.each(['0', '65', '-1', '1.5', 'four', '1e9'])('refuse %s shards', (SHARDS) => {
    expect(() =>
      readOperatorConfig({ MASTER_KEY_FILES: 'key', ALL_NAMESPACES: 'true', SHARDS }),
    ).toThrow(`SHARDS: must be a whole number from 1 to 64, not "${SHARDS}"`);
  });

  it('allow several shards for all namespaces only', () => {
    const MASTER_KEY_FILES = 'key';
    expect(readOperatorConfig({ MASTER_KEY_FILES }).SHARDS).toBe(1);
    expect(
      readOperatorConfig({ MASTER_KEY_FILES, ALL_NAMESPACES: 'true', SHARDS: '64' }).SHARDS,
    ).toBe(64);
    expect(() => readOperatorConfig({ MASTER_KEY_FILES, SHARDS: '2' })).toThrow(
      /^SHARDS: must be 1 unless ALL_NAMESPACES is true/,
    );
  });

  it('bound how long a pause waits for an agent', () => {
    expect(readOperatorConfig({ MASTER_KEY_FILES: 'key' }).PAUSE_TIMEOUT_SECONDS).toBe(15);
    expect(readUpConfig({ PAUSE_TIMEOUT_SECONDS: '0.5' }).PAUSE_TIMEOUT_SECONDS).toBe(0.5);
    expect(() => readUpConfig({ PAUSE_TIMEOUT_SECONDS: '0' })).toThrow(
      /^PAUSE_TIMEOUT_SECONDS: must be a number of seconds from/,
    );
  });

  it('bound how long git hosts are asked', () => {
    expect(readUpConfig({})).toMatchObject({ GIT_CHECK: true, GIT_CHECK_SECONDS: 5 });
    expect(readUpConfig({ GIT_CHECK: 'false', GIT_CHECK_SECONDS: '0.2' })).toMatchObject({
      GIT_CHECK: false,
      GIT_CHECK_SECONDS: 0.2,
    });
    expect(() => readUpConfig({ GIT_CHECK_SECONDS: '0' })).toThrow(/^GIT_CHECK_SECONDS: must be/);
    expect(() => readUpConfig({ GIT_CHECK_SECONDS: '31' })).toThrow(/^GIT_CHECK_SECONDS: must be/);
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
    [
      'https://ui.example.com, http://127.0.0.1:3001',
      ['https://ui.example.com', 'http://127.0.0.1:3001'],
    ],
    ['', []],
    ['https://ui.example.com/', undefined],
    ['ui.example.com', undefined],
    ['null', undefined],
  ])('take CORS_ORIGINS "%s": %j', (text, expected) => {
    const read = () => readUpConfig({ CORS_ORIGINS: text }).CORS_ORIGINS;
    if (expected !== undefined) expect(read()).toEqual(expected);
    else expect(read).toThrow(/^CORS_ORIGINS: must be \* or an origin/);
  });

  it.each([
    [{ LLM_MODEL: 'huggingface/https://models.example' }, 'LLM_MODEL: must be the name of a model'],
    [
      { TRUSTED_PROXIES: '10.0.0.0/8,proxy.example' },
      'TRUSTED_PROXIES: must be an address or a range like 10.0.0.0/8, not "proxy.example"',
    ],
  ])('bound what clients may do: %j', (environment, message) => {
    expect(() => readUpConfig(environment)).toThrow(message);
  });

  it('may switch limits off', () => {
    const off = {
      RATE_LIMIT_READS: 0,
      RATE_LIMIT_WRITES: 0,
      RATE_LIMIT_FAILED_KEYS: 0,
      MAX_REQUESTS: 0,
      OVERLOAD_DELAY_MS: 0,
    };
    const environment = Object.fromEntries(Object.keys(off).map((name) => [name, '0']));
    expect(readUpConfig(environment)).toMatchObject(off);
  });

  it('of a cluster need master keys', () => {
    expect(() => readGatewayConfig({})).toThrow('MASTER_KEY_FILES: must name at least one file');
    expect(readOperatorConfig({ MASTER_KEY_FILES: '/a,/b' })).toMatchObject({
      MASTER_KEY_FILES: ['/a', '/b'],
      HEALTH_PORT: 8081,
      HOST: '::',
    });
  });
});
