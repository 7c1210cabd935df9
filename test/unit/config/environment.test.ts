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

  it('of a cluster need master keys', () => {
    expect(() => readGatewayConfig({})).toThrow('MASTER_KEY_FILES: must name at least one file');
    expect(readOperatorConfig({ MASTER_KEY_FILES: '/a,/b' })).toMatchObject({ MASTER_KEY_FILES: ['/a', '/b'], HEALTH_PORT: 8081 });
  });
});
