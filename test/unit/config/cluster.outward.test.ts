import { readOperatorConfig, sandboxOutwardOf } from '../../../src/config/cluster.ts';

const read = (environment: NodeJS.ProcessEnv) =>
  sandboxOutwardOf(readOperatorConfig({ MASTER_KEY_FILES: 'key', ...environment }));

describe('how sandboxes reach what is outside', () => {
  it.each<[string, NodeJS.ProcessEnv, object]>([
    ['is up to templates by default', {}, {}],
    [
      'is a proxy, with the hosts without one',
      { SANDBOX_HTTPS_PROXY: 'http://proxy:3128', SANDBOX_NO_PROXY: '.svc, 10.0.0.0/8' },
      { proxy: { https: 'http://proxy:3128', http: undefined, noProxy: ['.svc', '10.0.0.0/8'] } },
    ],
    ['has no hosts without a proxy', { SANDBOX_NO_PROXY: '.svc' }, {}],
    [
      'has certificates of a ConfigMap',
      { SANDBOX_TRUST_CONFIG_MAP: 'ca' },
      { trust: { kind: 'ConfigMap', name: 'ca', key: 'ca.crt' } },
    ],
    [
      'has certificates of a Secret',
      { SANDBOX_TRUST_SECRET: 'ca', SANDBOX_TRUST_KEY: 'bundle.pem' },
      { trust: { kind: 'Secret', name: 'ca', key: 'bundle.pem' } },
    ],
  ])('%s', (_sentence, environment, expected) => {
    expect(read(environment)).toEqual(expected);
  });

  it.each<[string, NodeJS.ProcessEnv, string]>([
    [
      'a password, which the error does not repeat',
      { SANDBOX_HTTP_PROXY: 'http://user:secret@proxy:3128' },
      'SANDBOX_HTTP_PROXY: must be a URL without a user and a password, which every command of an agent could read',
    ],
    [
      'a proxy of another protocol',
      { SANDBOX_HTTPS_PROXY: 'socks5://proxy:1080' },
      'SANDBOX_HTTPS_PROXY: must be an http or https URL, not "socks5://proxy:1080"',
    ],
    [
      'two places of certificates',
      { SANDBOX_TRUST_CONFIG_MAP: 'a', SANDBOX_TRUST_SECRET: 'b' },
      'SANDBOX_TRUST_SECRET: can\'t be combined with SANDBOX_TRUST_CONFIG_MAP, not "b"',
    ],
    [
      'the path of an entry',
      { SANDBOX_TRUST_CONFIG_MAP: 'a', SANDBOX_TRUST_KEY: '../ca.crt' },
      'SANDBOX_TRUST_KEY: must be the name of an entry',
    ],
    [
      'a name that no ConfigMap has for an entry',
      { SANDBOX_TRUST_CONFIG_MAP: 'a', SANDBOX_TRUST_KEY: '..ca' },
      'SANDBOX_TRUST_KEY: must be the name of an entry: letters, digits, dots, hyphens and underscores, and not begin with two dots',
    ],
    [
      'the name of no object',
      { SANDBOX_TRUST_CONFIG_MAP: 'Company CA' },
      'SANDBOX_TRUST_CONFIG_MAP: must be the name of an object',
    ],
  ])('refuses %s', (_case, environment, message) => {
    expect(() => read(environment)).toThrow(message);
    if (message.includes('password')) expect(() => read(environment)).not.toThrow('secret');
  });
});
