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

  it('of a cluster need master keys', () => {
    expect(() => readGatewayConfig({})).toThrow('MASTER_KEY_FILES: must name at least one file');
    expect(readOperatorConfig({ MASTER_KEY_FILES: '/a,/b' })).toMatchObject({ MASTER_KEY_FILES: ['/a', '/b'], HEALTH_PORT: 8081 });
  });
});
