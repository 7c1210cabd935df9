import {
  readGatewayConfig,
  readOperatorConfig,
  readRelayConfig,
} from '../../../src/config/cluster.ts';
import { readUpConfig } from '../../../src/config/up.ts';

const readers = {
  up: readUpConfig,
  operator: (environment: NodeJS.ProcessEnv) =>
    readOperatorConfig({ MASTER_KEY_FILES: 'key', ALL_NAMESPACES: 'true', ...environment }),
  gateway: (environment: NodeJS.ProcessEnv) =>
    readGatewayConfig({ MASTER_KEY_FILES: 'key', ...environment }),
  relay: (environment: NodeJS.ProcessEnv) =>
    readRelayConfig({ MASTER_KEY_FILES: 'key', ...environment }),
} as const;
type Command = keyof typeof readers;

const port = { unit: 'a whole number', from: 0, to: 65_535 };
const whole = { unit: 'a whole number', from: 1, to: 1_000_000_000 };
const wholeOrOff = { ...whole, off: true };
const seconds = { unit: 'a number of seconds', from: 0.001, to: 86_400 };
const drain = { unit: 'a number of seconds', from: 0, to: 15 };
const wholeSeconds = { unit: 'a whole number of seconds', from: 1, to: 86_400 };

interface Numeric {
  readonly unit: string;
  readonly from: number;
  readonly to: number;
  /** 0 is accepted below `from`: no limit. */
  readonly off?: boolean;
}

const operating = {
  PAUSE_TIMEOUT_SECONDS: seconds,
  CLONE_TIMEOUT_SECONDS: wholeSeconds,
  SETUP_TIMEOUT_SECONDS: wholeSeconds,
  REPOSITORY_MAX_MIB: whole,
};
const serving = {
  CLONE_TIMEOUT_SECONDS: wholeSeconds,
  GIT_CHECK_SECONDS: { ...seconds, to: 30 },
  API_KEY_MAX_LIFETIME_DAYS: { unit: 'a number of days', from: 0, to: 36_500 },
  RATE_LIMIT_READS: { ...wholeOrOff, from: 20 },
  RATE_LIMIT_WRITES: wholeOrOff,
  RATE_LIMIT_FAILED_KEYS: wholeOrOff,
  MAX_CONNECTIONS: whole,
  MAX_CONNECTIONS_PER_ADDRESS: wholeOrOff,
  MAX_REQUESTS: wholeOrOff,
  OVERLOAD_DELAY_MS: wholeOrOff,
};
const settings: Readonly<Record<Command, Readonly<Record<string, Numeric>>>> = {
  up: { ...operating, ...serving, PORT: port, API_PORT: port, METRICS_PORT: port },
  operator: {
    ...operating,
    METRICS_PORT: port,
    HEALTH_PORT: port,
    NOTIFICATION_PORT: port,
    LEASE_DURATION_SECONDS: seconds,
    LEASE_RENEW_DEADLINE_SECONDS: seconds,
    LEASE_RETRY_PERIOD_SECONDS: seconds,
    SHARDS: { ...whole, to: 64 },
  },
  gateway: {
    ...serving,
    METRICS_PORT: port,
    PORT: port,
    AGENT_SIDE_PORT: port,
    PROXY_CONNECTIONS_PER_SANDBOX: whole,
    PROXY_CONNECTIONS: whole,
    PROXY_FIRST_BYTE_SECONDS: seconds,
    PROXY_IDLE_SECONDS: seconds,
    DRAIN_SECONDS: drain,
  },
  relay: { METRICS_PORT: port, AGENT_SIDE_PORT: port, DRAIN_SECONDS: drain },
};
const commands = Object.keys(readers) as Command[];
const rows = commands.flatMap((command) =>
  Object.entries(settings[command]).map(([name, numeric]) => ({ command, name, ...numeric })),
);
const isLease = (name: string) => name.startsWith('LEASE_');

describe('numeric settings', () => {
  it.each(commands)('of %s are all in the table', (command) => {
    const withOptional = readers[command]({ NOTIFICATION_PORT: '1', AGENT_SIDE_PORT: '1' });
    const numeric = Object.entries(withOptional).flatMap(([name, value]) =>
      typeof value === 'number' ? [name] : [],
    );
    expect(numeric.sort()).toEqual(Object.keys(settings[command]).sort());
  });

  it.each(rows)(
    '$command: $name names its range and what was given',
    ({ command, name, unit, from, to, off }) => {
      const range = `${name}: must be ${unit} from ${from} to ${to}${off === true ? ', or 0 for no limit' : ''}`;
      const wrong = [
        String(to + 1),
        '-1',
        'many',
        ' ',
        '1e999',
        ...(unit.includes('whole') ? ['1.5'] : []),
        ...(from > 0 && off !== true ? ['0'] : []),
      ];
      for (const text of wrong)
        expect(() => readers[command]({ [name]: text })).toThrow(
          `${range}, not ${JSON.stringify(text)}`,
        );
    },
  );

  it.each(rows.filter(({ name }) => !isLease(name)))(
    '$command: $name takes both bounds',
    ({ command, name, from, to, off }) => {
      for (const value of [from, to, ...(off === true ? [0] : [])])
        expect(readers[command]({ [name]: String(value) })).toMatchObject({ [name]: value });
    },
  );

  it.each(rows)(
    '$command: $name has its default where the variable is empty',
    ({ command, name }) => {
      expect(readers[command]({ [name]: '' })).toEqual(readers[command]({}));
    },
  );

  it.each([
    [
      { LEASE_DURATION_SECONDS: '10' },
      'LEASE_DURATION_SECONDS: must be more than LEASE_RENEW_DEADLINE_SECONDS (10), not "10"',
    ],
    [
      { LEASE_RETRY_PERIOD_SECONDS: '9' },
      'LEASE_RETRY_PERIOD_SECONDS: must be less than LEASE_RENEW_DEADLINE_SECONDS (10) divided by 1.2, not "9"',
    ],
  ])('of the lease fit together: %j', (environment, message) => {
    expect(() => readers.operator(environment)).toThrow(message);
  });
});

describe('errors of settings', () => {
  it.each([
    [{ LOG_LEVEL: 'loud' }, 'LOG_LEVEL: must be error, warn, info or debug, not "loud"'],
    [{ LOG_FORMAT: 'xml' }, 'LOG_FORMAT: must be json or pretty, not "xml"'],
    [{ LEGACY_API: 'perhaps' }, 'LEGACY_API: must be true, false, 1 or 0, not "perhaps"'],
    [
      { AGENT: 'other' },
      'AGENT: must be reference, openhands, codex, claude, qwen, opencode, gemini or kimi, not "other"',
    ],
    [
      { AGENTS: 'codex,other' },
      'AGENTS: must be reference, openhands, codex, claude, qwen, opencode, gemini or kimi, not "other"',
    ],
    [
      { AGENT: 'codex', AGENTS: 'claude' },
      "AGENTS: can't be combined with AGENT; the first agent of AGENTS is that of starts that name no template",
    ],
    [{ PUBLIC_URL: 'ftp://host' }, 'PUBLIC_URL: must be an http or https URL, not "ftp://host"'],
    [
      { TRUSTED_PROXIES: 'loopback, proxy' },
      'TRUSTED_PROXIES: must be an address or a range like 10.0.0.0/8, not "proxy"',
    ],
    [{ GIT_HOSTS: '[]' }, 'GIT_HOSTS: must be a JSON object of provider names and base URLs'],
    [
      { GIT_HOSTS: '{"forge":"ssh://forge"}' },
      'GIT_HOSTS.forge: must be an http, https or file URL',
    ],
    [
      { GIT_API_URLS: '{"github":"file:///api"}' },
      'GIT_API_URLS.github: must be an http or https URL',
    ],
    [{ GITHUB_APP_ID: '12' }, 'GITHUB_APP_PRIVATE_KEY_FILE: must be set where GITHUB_APP_ID is'],
    [
      { GITHUB_APP_PRIVATE_KEY_FILE: '/key' },
      'GITHUB_APP_ID: must be set where GITHUB_APP_PRIVATE_KEY_FILE is',
    ],
    [
      { GITHUB_APP_ID: 'a b', GITHUB_APP_PRIVATE_KEY_FILE: '/key' },
      'GITHUB_APP_ID: must be the id of a GitHub App, or its client id, not "a b"',
    ],
    [
      { GITHUB_APP_ID: '12', GITHUB_APP_PRIVATE_KEY_FILE: '/key', GITHUB_APP_PROVIDER: 'ghe' },
      'GITHUB_APP_PROVIDER: must be a provider of GIT_HOSTS',
    ],
    [{ GITHUB_APP_OWNERS: '["alice"]' }, 'GITHUB_APP_OWNERS: must be a JSON object of owners'],
    [
      { GITHUB_APP_OWNERS: '{"alice":"acme/*"}' },
      'GITHUB_APP_OWNERS.alice: must be a JSON object of owners',
    ],
    [
      { GITHUB_APP_OWNERS: '{"alice":["acme"]}' },
      'GITHUB_APP_OWNERS.alice: must be a pattern like acme/*',
    ],
    [{ PORT: `1${'0'.repeat(200)}` }, `not "1${'0'.repeat(79)}…"`],
  ])('%j', (environment, message) => {
    expect(() => readUpConfig(environment)).toThrow(message);
  });

  it.each([
    { GIT_HOSTS: '{"forge":"ssh://user:s3cret@forge"}' },
    { GIT_HOSTS: '{"forge":"https://user:s3cret@forge"' },
    { GIT_API_URLS: '{"github":"ftp://user:s3cret@api"}' },
    { GITHUB_APP_PRIVATE_KEY_FILE: '-----BEGIN RSA PRIVATE KEY-----\\ns3cret' },
    { LLM_BASE_URL: 'https://models.example?key=s3cret' },
    { LLM_MODEL: 'https://user:s3cret@models.example' },
    { PUBLIC_URL: 'ftp://user:s3cret@host' },
    { CORS_ORIGINS: 'https://user:s3cret@ui.example' },
  ])('keep to themselves what may be a secret: %j', (environment) => {
    let message = '';
    try {
      readUpConfig(environment);
    } catch (error) {
      message = String(error);
    }
    expect(message).toContain(Object.keys(environment)[0] ?? '');
    expect(message).not.toContain('s3cret');
  });
});
