import { createBody, parse } from '../src/bodies.ts';
import { HttpError } from '../src/router.ts';
import {
  mcpServersOf,
  sessionServersOf,
  storedMcpServers,
  type McpServer,
} from '../src/mcp-servers.ts';

function serversOf(mcp_config: unknown, field: 'agent' | 'agent_settings' = 'agent_settings') {
  const body = { workspace: { working_dir: '/w' }, [field]: { mcp_config } };
  const { agent, agent_settings } = parse(createBody, body, 'body');
  return mcpServersOf((agent_settings ?? agent)?.mcp_config ?? {});
}

const url = 'http://mcp.test/mcp';
const web = (name: string, type: 'http' | 'sse' = 'http'): McpServer => ({
  type,
  name,
  url,
  headers: [],
});
const local = (name: string): McpServer => ({ name, command: '/bin/mcp', args: [], env: [] });

describe('the MCP servers of a request', () => {
  it.each<[string, unknown, readonly McpServer[]]>([
    ['none when absent', null, []],
    ['over HTTP without a transport', { a: { url } }, [web('a')]],
    ['over HTTP by its longer name', { a: { url, transport: 'streamable-http' } }, [web('a')]],
    ['over events', { a: { url, transport: 'sse' } }, [web('a', 'sse')]],
    [
      'with headers',
      { a: { url, transport: 'http', headers: { 'X-Key': 'k' } } },
      [{ type: 'http', name: 'a', url, headers: [{ name: 'X-Key', value: 'k' }] }],
    ],
    [
      'by a command',
      { a: { command: 'mcp', args: ['-v'], env: { TOKEN: 't' }, transport: 'stdio' } },
      [{ name: 'a', command: 'mcp', args: ['-v'], env: [{ name: 'TOKEN', value: 't' }] }],
    ],
    ['without those that are off', { a: { url, enabled: false }, b: { url } }, [web('b')]],
    ['whatever else they have', { a: { url, timeout: 3, icon: 'x' } }, [web('a')]],
  ])('are %s', (_case, config, expected) => {
    expect(serversOf(config)).toEqual(expected);
    expect(serversOf(config, 'agent')).toEqual(expected);
  });

  it.each<[string, unknown]>([
    ['no address', { a: { headers: { K: 'hidden-value' } } }],
    ['an address of another scheme', { a: { url: 'file:///hidden-value' } }],
    ['a header that ends its line', { a: { url, headers: { K: 'hidden-value\r\nX: y' } } }],
    ['a header without a name', { a: { url, headers: { '': 'hidden-value' } } }],
    ['a variable that no shell has', { a: { command: 'x', env: { 'A=B': 'hidden-value' } } }],
    ['an empty name', { '': { url } }],
    ['a list', [{ url }]],
    ['33 servers', Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`s${i}`, { url }]))],
  ])('are refused without their values: %s', (_case, config) => {
    const refusal = (() => {
      try {
        return serversOf(config);
      } catch (error) {
        return error;
      }
    })();
    expect(refusal).toBeInstanceOf(HttpError);
    expect(refusal).toMatchObject({ status: 422 });
    expect(JSON.stringify(refusal)).not.toContain('hidden-value');
  });

  it('are read again from what is stored, and are none when it is unreadable', () => {
    const servers = [web('a'), web('b', 'sse'), local('c')];
    expect(storedMcpServers(JSON.stringify(servers))).toEqual(servers);
    for (const text of [undefined, '', '{', '{}', '[{"name":1}]'])
      expect(storedMcpServers(text)).toEqual([]);
  });
});

describe('the MCP servers of a session', () => {
  const none = { servers: [], skipped: [] };
  const able = { http: true, sse: false };
  it.each<[string, McpServer[], McpServer[], object]>([
    ['none', [], [], none],
    [
      'those of both',
      [web('e')],
      [web('c'), local('l')],
      { servers: [web('e'), web('c'), local('l')], skipped: [] },
    ],
    [
      'that of the environment for one name',
      [local('a')],
      [web('a'), web('b')],
      { servers: [local('a'), web('b')], skipped: [] },
    ],
    [
      'without those of the conversation that the agent has no transport for',
      [],
      [web('a', 'sse'), web('b')],
      { servers: [web('b')], skipped: ['a'] },
    ],
    [
      'that of the environment although the agent could not use the other one',
      [local('a')],
      [web('a', 'sse')],
      { servers: [local('a')], skipped: [] },
    ],
  ])('are %s', (_case, environment, conversation, expected) => {
    expect(sessionServersOf(environment, conversation, able)).toEqual(expected);
  });

  it('are none for an agent that starts none, which is recorded', () => {
    expect(sessionServersOf([local('a')], [web('a'), local('b')], false)).toEqual({
      servers: [],
      skipped: ['a', 'b'],
    });
  });
});
