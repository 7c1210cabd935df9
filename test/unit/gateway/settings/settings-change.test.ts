import { SandboxKeys } from '../../../../src/agent/keys.ts';
import { sealingUnder } from '../../../../src/agent/sealing.ts';
import { ProblemError } from '../../../../src/gateway/errors/problem-error.ts';
import { validate } from '../../../../src/gateway/errors/validation.ts';
import {
  presentMcpServers,
  changedSettings,
  settingsRequestSchema,
} from '../../../../src/gateway/settings/settings-change.ts';
import type { OwnerSettingsSpec } from '../../../../src/resources/owner-settings.ts';

const owner = 'alice';
const sealing = sealingUnder(new SandboxKeys([Buffer.alloc(32, 1)]));
const hidden = '**********';

const change = (stored: OwnerSettingsSpec, body: object): OwnerSettingsSpec => {
  const input = { params: {}, query: {}, headers: {}, body };
  const request = validate({ body: settingsRequestSchema }, input).body;
  if (request === undefined) throw new Error('the schema has made nothing');
  return changedSettings(stored, request, sealing);
};
const mcp = (servers: object) => ({ agent_settings_diff: { mcp_config: servers } });
const shown = ({ mcpServers = [] }: OwnerSettingsSpec) =>
  presentMcpServers(mcpServers, owner, sealing);
const headersOf = ({ mcpServers = [] }: OwnerSettingsSpec, name: string): unknown => {
  const sealed = mcpServers.find((server) => server.name === name)?.sealed;
  const text = sealed && sealing.open(sealed, { scope: 'mcp', owner, name });
  return text === undefined ? undefined : JSON.parse(text);
};
const errorOf = (act: () => unknown): readonly unknown[] => {
  try {
    act();
  } catch (error) {
    if (error instanceof ProblemError)
      return [error.code, ...(error.errors ?? []).map(({ path }) => path)];
    throw error;
  }
  return [];
};
const some = change(
  { owner },
  {
    ...mcp({
      docs: { url: 'https://docs.example/mcp', headers: { Authorization: 'Bearer 1', X: '2' } },
      tool: { command: 'npx', args: ['-y', 'tool'], env: { TOKEN: '3' } },
    }),
    llm_model: 'openai/small',
    git_user_name: 'Alice',
    git_user_email: 'alice@example.com',
  },
);

describe('settings', () => {
  it('are stored, with sealed headers and environments', () => {
    expect(some).toMatchObject({
      model: 'openai/small',
      git: { name: 'Alice', email: 'alice@example.com' },
      mcpServers: [
        { name: 'docs', url: 'https://docs.example/mcp', type: 'http' },
        { name: 'tool', command: 'npx', args: ['-y', 'tool'] },
      ],
    });
    expect(JSON.stringify(some)).not.toMatch(/Bearer 1|"3"/);
    expect(headersOf(some, 'docs')).toEqual({ Authorization: 'Bearer 1', X: '2' });
    expect(shown(some)).toEqual({
      docs: {
        transport: 'http',
        url: 'https://docs.example/mcp',
        headers: { Authorization: hidden, X: hidden },
      },
      tool: { transport: 'stdio', command: 'npx', args: ['-y', 'tool'], env: { TOKEN: hidden } },
    });
  });

  it('stay as they are where a request names nothing, and what it names is unknown', () => {
    expect(change(some, {})).toEqual(some);
    expect(change(some, { language: 'de', agent_settings_diff: { agent: 'x' } })).toEqual(some);
  });

  it('survive a client that sends back what it has read', () => {
    expect(headersOf(change(some, mcp(shown(some))), 'docs')).toEqual(headersOf(some, 'docs'));
    expect(headersOf(change(some, mcp(shown(some))), 'tool')).toEqual({ TOKEN: '3' });
  });

  it.each<[string, object, unknown]>([
    ['one value is replaced', { X: '9' }, { Authorization: 'Bearer 1', X: '9' }],
    ['one value is removed', { X: null }, { Authorization: 'Bearer 1' }],
    [
      'one is kept, one is added',
      { X: hidden, Y: '4' },
      { Authorization: 'Bearer 1', X: '2', Y: '4' },
    ],
  ])('are merged: %s', (_sentence, headers, expected) => {
    expect(headersOf(change(some, mcp({ docs: { headers } })), 'docs')).toEqual(expected);
  });

  it('lose what null names', () => {
    expect(shown(change(some, mcp({ docs: null })))).not.toHaveProperty('docs');
    expect(shown(change(some, mcp({ docs: { headers: null } })))['docs']).toMatchObject({
      headers: null,
    });
    expect(change(some, { mcp_config: null })).not.toHaveProperty('mcpServers');
    expect(change(some, { llm_model: null })).not.toHaveProperty('model');
    expect(change(some, { git_user_name: '', git_user_email: null })).not.toHaveProperty('git');
  });

  it('give the values of one transport to no other', () => {
    const changed = change(some, mcp({ docs: { url: null, command: 'npx' } }));
    expect(shown(changed)['docs']).toEqual({
      transport: 'stdio',
      command: 'npx',
      args: [],
      env: null,
    });
  });

  it.each<[string, object, unknown]>([
    ['another path', { url: 'https://docs.example/v2?a=b' }, { Authorization: 'Bearer 1', X: '2' }],
    ['another host', { url: 'https://docs.example.evil/mcp' }, undefined],
    ['another port', { url: 'https://docs.example:8443/mcp' }, undefined],
    ['another scheme', { url: 'http://docs.example/mcp' }, undefined],
    [
      'another host, with values of its own',
      { url: 'https://b/', headers: { Y: '4' } },
      { Y: '4' },
    ],
  ])('have the headers of a server for its origin alone: %s', (_case, patch, expected) => {
    expect(headersOf(change(some, mcp({ docs: patch })), 'docs')).toEqual(expected);
  });

  it('have the environment of a server for its program with its arguments alone', () => {
    const of = (patch: object) => headersOf(change(some, mcp({ tool: patch })), 'tool');
    expect(of({ command: 'npx', args: ['-y', 'tool'] })).toEqual({ TOKEN: '3' });
    expect(of({ command: 'sh' })).toBeUndefined();
    expect(of({ args: ['-y', 'https://tool.example.evil/'] })).toBeUndefined();
    expect(of({ args: ['-y', 'tool@2'], env: { TOKEN: '4' } })).toEqual({ TOKEN: '4' });
  });

  it('may have servers with names of the language', () => {
    const named = change({ owner }, mcp({ constructor: { command: 'npx' } }));
    expect(Object.keys(shown(change(named, mcp({ toString: { command: 'x' } }))))).toEqual([
      'constructor',
      'toString',
    ]);
  });

  const inDiff = 'body.agent_settings_diff.mcp_config';
  it.each<[string, object, readonly string[]]>([
    ['a URL with a user', mcp({ a: { url: 'https://u:p@host/' } }), [`${inDiff}.a.url`]],
    ['a URL of another scheme', mcp({ a: { url: 'file:///etc/passwd' } }), [`${inDiff}.a.url`]],
    ['a server of both kinds', mcp({ a: { url: 'https://a', command: 'b' } }), [`${inDiff}.a`]],
    ['a server of no kind', mcp({ a: {} }), [`${inDiff}.a`]],
    [
      'a header that no request can have',
      mcp({ a: { url: 'https://a', headers: { 'A B': '1' } } }),
      [`${inDiff}.a.headers.A B`],
    ],
    [
      'a header with a line break',
      mcp({ a: { url: 'https://a', headers: { A: '1\r\nB: 2' } } }),
      [`${inDiff}.a.headers.A`],
    ],
    [
      'asterisks for a value that is not there',
      mcp({ a: { url: 'https://a', headers: { A: hidden } } }),
      [`${inDiff}.a.headers.A`],
    ],
    [
      'asterisks for the value of another origin',
      mcp({ docs: { url: 'https://b/', headers: { Authorization: hidden } } }),
      [`${inDiff}.docs.headers.Authorization`],
    ],
    [
      'asterisks for the value of another program',
      mcp({ tool: { command: 'sh', env: { TOKEN: hidden } } }),
      [`${inDiff}.tool.env.TOKEN`],
    ],
    [
      'a credential that could not be used',
      mcp({ a: { url: 'https://a', auth: { strategy: 'oauth2' } } }),
      [`${inDiff}.a.auth.strategy`],
    ],
    ['a disabled server', mcp({ a: { command: 'a', enabled: false } }), [`${inDiff}.a.enabled`]],
    [
      'too many servers',
      mcp(Object.fromEntries(Array.from({ length: 15 }, (_, at) => [`s${at}`, { command: 'x' }]))),
      [inDiff],
    ],
    [
      'too much in an environment',
      mcp({ a: { command: 'a', env: { A: 'x'.repeat(16_384) } } }),
      [`${inDiff}.a.env`],
    ],
    ['an author on two lines', { git_user_name: 'A\nB' }, ['body.git_user_name']],
    ['an author without an address', { git_user_email: null }, ['body.git_user_email']],
  ])('refuse %s, and name the field', (_sentence, body, paths) => {
    expect(errorOf(() => change(some, body))).toEqual(['invalid-request', ...paths]);
  });

  it('whose master key is gone show no names, and are replaced as a whole', () => {
    const later = sealingUnder(new SandboxKeys([Buffer.alloc(32, 2)]));
    expect(presentMcpServers(some.mcpServers ?? [], owner, later)['docs']).toMatchObject({
      headers: null,
    });
    const request = settingsRequestSchema.parse(mcp({ docs: { headers: { X: '1' } } }));
    expect(errorOf(() => changedSettings(some, request, later))).toEqual(['secret-unreadable']);
    const removal = settingsRequestSchema.parse(mcp({ docs: { headers: null } }));
    expect(changedSettings(some, removal, later).mcpServers?.[1]).not.toHaveProperty('sealed');
  });
});
