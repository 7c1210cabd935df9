import { gatewaySettings } from '../../../src/commands/gateway-wiring.ts';
import { readGatewayConfig } from '../../../src/config/cluster.ts';
import { StubAgent } from '../../support/gateway/stub-agent.ts';
import { expectDecent, sendRaw, verdictOf } from '../../support/gateway/raw-http.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';

const start = '/api/v1/app-conversations';
const bad = '400 malformed-request';
const invalid = '422 invalid-request';
const nowhere = '404 route-not-found';
const unknown = '404 not-found';

let agent: StubAgent;
let gateway: TestGateway;
let key: string;
beforeAll(async () => {
  agent = await StubAgent.start();
  gateway = await TestGateway.start({
    ...gatewaySettings(readGatewayConfig({ MASTER_KEY_FILES: 'unused', OVERLOAD_DELAY_MS: '0' })),
    sandboxUrlTemplate: 'https://{sandbox}-{port}.agents.example',
  });
  const sandbox = await gateway.addSandbox('sbx-1', { status: agent.status });
  key = gateway.sessionKeyOf(sandbox);
});
beforeEach(() => agent.reset());
afterAll(async () => {
  await gateway.stop();
  await agent.stop();
});

const send = (method: string, target: string, headers = '', host = 'x') =>
  sendRaw(
    gateway.port,
    `${method} ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${headers}\r\n`,
  );

describe('a path of the service', () => {
  it.each<[string, string, string]>([
    ['a slash too many before it', `/${start}/search`, bad],
    ['a slash too many in the place of a host', '//evil.example/', bad],
    ['a slash too many in disguise', '/%2f%2Fevil.example/', bad],
    ['a backslash in the place of a slash', '/\\evil.example/', bad],
    ['a backslash in disguise in the place of a slash', '/%5cevil.example/', bad],
    ['a dot before a slash too many', '/.//evil.example/', bad],
    ['a URL of the same host before it', 'http://x//evil.example/', bad],
    ['a slash too many in it', '/api//v1/users/me', nowhere],
    ['dots', '/api/v1/x/../users/me', nowhere],
    ['dots that lead out of it', '/../../../etc/passwd', bad],
    ['dots in disguise', '/api/v1/x/%2e%2e/users/me', nowhere],
    ['dots in the place of an id', `/api/conversations/..`, invalid],
    ['dots in disguise in the place of an id', `/api/conversations/%2e%2e`, invalid],
    ['a slash in disguise in the place of an id', `/api/conversations/..%2f..%2fsecrets`, invalid],
    ['a backslash', '/api\\v1\\users\\me', nowhere],
    ['a backslash in disguise', '/api/v1/users%5cme', nowhere],
    ['a NUL in disguise', '/api/v1/users/me%00', nowhere],
    ['a NUL in the place of an id', '/api/conversations/%00', invalid],
    [
      'a line end in the place of an id',
      '/api/conversations/a%0d%0aX: y'.replace(' ', '%20'),
      invalid,
    ],
    ['a percent sign without digits', '/api/conversations/%', bad],
    ['a percent sign with something else', '/api/conversations/%zz', bad],
    ['bytes that are not UTF-8', '/api/conversations/%ff%fe', bad],
    ['an overlong slash', '/api/conversations/..%c0%afx', bad],
    ['half a surrogate pair', '/api/conversations/%ed%a0%80', bad],
    ['an id of 8,000 characters', `/api/conversations/${'a'.repeat(8000)}`, invalid],
    ['a path of 15,000 characters', `/${'a/'.repeat(7500)}`, nowhere],
    ['a longer one', `/${'a/'.repeat(8500)}`, '431 headers-too-large'],
    ['a parameter of a segment', '/api/v1/users/me;a=b', nowhere],
    ['__proto__', '/__proto__', nowhere],
    ['constructor in the place of an id', '/api/conversations/constructor', invalid],
    ['another case', '/API/V1/USERS/ME', '200'],
    ['a slash behind it', '/api/v1/users/me/', '200'],
  ])('with %s', async (_case, path, verdict) => {
    const outcome = await send('GET', path, `Authorization: Bearer ${gateway.alice}\r\n`);
    expect(verdictOf(outcome)).toBe(verdict);
    expectDecent(outcome);
  });

  it.each([
    ['DELETE', '/api/v1/sandboxes/..'],
    ['DELETE', '/api/v1/sandboxes/%2e%2e%2f%2e%2e%2fsecrets'],
    ['DELETE', '/api/v1/sandboxes/sbx-1%00'],
    ['DELETE', '/api/keys/%2e%2e'],
    ['POST', '/api/v1/sandboxes/%2e%2e/pause'],
    ['POST', '/api/v1/sandboxes/sbx-1%2fstatus/pause'],
    ['POST', '/api/v1/sandboxes?sandbox_spec_id=..%2f..%2fx'],
  ])('%s %s is no way to anything else', async (method, path) => {
    const calls: string[] = [];
    gateway.client.fault = ({ verb, plural, name }) => {
      if (verb !== 'watch') calls.push(`${verb} ${plural} ${name ?? ''}`);
      return undefined;
    };
    const outcome = await send(method, path, `Authorization: Bearer ${gateway.alice}\r\n`);
    expect(verdictOf(outcome)).toBe(unknown);
    expectDecent(outcome);
    expect(calls).toEqual([]);
  });

  it.each<[string, string, string]>([
    ['a percent sign without digits', 'limit=%', bad],
    ['bytes that are not UTF-8', 'title__contains=%ff', bad],
    ['NUL', 'title__contains=a%00b', bad],
    ['bytes beyond ASCII', 'title__contains=\xe4', bad],
    ['half a surrogate pair', 'title__contains=%ed%a0%bd', bad],
    ['a parameter twice, of which the last one counts', 'limit=0&limit=1', '200'],
    ['a parameter twice, the last one wrong', 'limit=1&limit=0', invalid],
    ['a parameter in brackets, which is another', 'limit[]=0&limit[x]=0', invalid],
    ['__proto__', '__proto__[limit]=0&__proto__=1&constructor=1', invalid],
    ['a number beyond the exact ones', 'limit=9007199254740993', invalid],
    ['a number in exponents', 'limit=1e1', invalid],
    ['a number in hex', 'limit=0x1', invalid],
    ['minus zero', 'limit=-0', invalid],
    ['white space around a number', 'limit=%201', invalid],
    ['NaN', 'limit=NaN', invalid],
    ['an empty number', 'limit=', invalid],
    ['a place in the list that is none', 'page_id=%2e%2e%2f', invalid],
    [
      'a place in the list that is JSON',
      `page_id=${Buffer.from('{"a":1}').toString('base64url')}`,
      invalid,
    ],
    ['a time beyond all times', 'created_at__gte=9999-99-99T99:99:99Z', invalid],
    ['a year of ten digits', 'created_at__gte=1000000000-01-01', invalid],
    ['7,000 parameters', 'a&'.repeat(7000), invalid],
    ['nothing but signs', '&&&===&?&', invalid],
  ])('with a query with %s', async (_case, query, verdict) => {
    const outcome = await send(
      'GET',
      `${start}/search?${query}`,
      `Authorization: Bearer ${gateway.alice}\r\n`,
    );
    expect(verdictOf(outcome)).toBe(verdict);
    expectDecent(outcome);
  });
});

describe('a path to a sandbox', () => {
  const port = '/sandboxes/sbx-1/AGENT_SERVER';
  const keyed = () => `X-Session-API-Key: ${key}\r\n`;

  it.each<[string, string, string]>([
    ['a plain one, for comparison', `${port}/api/x?a=%2F..`, '200'],
    ['a slash too many before it', `/${port}/api`, bad],
    ['a slash too many in it', `/sandboxes//sbx-1/AGENT_SERVER/api`, nowhere],
    ['dots before the sandbox', '/x/..' + port, nowhere],
    ['dots for the sandbox', '/sandboxes/../AGENT_SERVER/api', nowhere],
    ['dots in the sandbox', '/sandboxes/sbx-1%2f..%2fsbx-2/AGENT_SERVER/', nowhere],
    ['a sandbox in capitals', '/sandboxes/SBX-1/AGENT_SERVER/', nowhere],
    ['a letter of the sandbox in disguise', '/sandboxes/%73bx-1/AGENT_SERVER/', nowhere],
    ['an address for the sandbox', '/sandboxes/127.0.0.1/AGENT_SERVER/', '401 unauthorized'],
    ['a sandbox with a port', '/sandboxes/sbx-1:22/AGENT_SERVER/', nowhere],
    ['a sandbox with a user', '/sandboxes/a@sbx-1/AGENT_SERVER/', nowhere],
    ['a port that is not exposed', '/sandboxes/sbx-1/SSH/', nowhere],
    ['a port by number', '/sandboxes/sbx-1/8000/', nowhere],
    ['a port in small letters', '/sandboxes/sbx-1/agent_server/', nowhere],
    ['a port that every object has', '/sandboxes/sbx-1/constructor/', nowhere],
    ['no port', '/sandboxes/sbx-1', nowhere],
    ['dots behind it', `${port}/../../sbx-2/AGENT_SERVER/`, bad],
    ['dots at its end', `${port}/..`, bad],
    ['dots in disguise', `${port}/%2e%2e/x`, bad],
    ['dots half in disguise', `${port}/.%2E/x`, bad],
    ['dots between slashes in disguise', `${port}/a%2f..%2fb`, bad],
    ['dots with a parameter', `${port}/..;/x`, bad],
    ['a dot', `${port}/./x`, bad],
    ['a backslash', `${port}/..\\x`, bad],
    ['a backslash in disguise', `${port}/..%5cx`, bad],
    ['a NUL', `${port}/%00`, bad],
    ['a line end', `${port}/a%0d%0aX-Evil:%20y`, bad],
    ['a percent sign without digits', `${port}/%`, bad],
    ['a percent sign with something else', `${port}/%zz`, bad],
    ['a space in the query', `${port}/x?a b`, bad],
    ['bytes beyond ASCII', `${port}/\xff`, bad],
    ['bytes beyond ASCII in the query', `${port}/x?\xff`, bad],
    ['slashes in disguise, which go through', `${port}/a%2Fb`, '200'],
    ['double slashes, which go through', `${port}/x//evil.example/x`, '200'],
    ['double slashes before it', `${port}//evil.example/x`, bad],
    ['double slashes in disguise before it', `${port}/%2F%2fevil.example/x`, bad],
    ['a URL behind it', `${port}/http://evil.example/`, '200'],
    ['a URL in its place', `http://127.0.0.1:22/sandboxes/sbx-1/AGENT_SERVER/`, bad],
    ['a very long one', `${port}/${'a'.repeat(15_000)}`, '200'],
  ])('with %s', async (_case, path, verdict) => {
    const outcome = await send('GET', path, keyed());
    expect(verdictOf(outcome)).toBe(verdict);
    expectDecent(outcome);
    expect(agent.seen).toHaveLength(verdict === '200' ? 1 : 0);
    if (verdict === '200') expect(agent.seen[0]?.url).toBe(path.slice(port.length));
  });

  it.each<[string, string, string, string]>([
    ['a plain one, for comparison', 'sbx-1-agent-server.agents.example', '/x', '200'],
    ['with a port', 'sbx-1-agent-server.agents.example:8443', '/x', '200'],
    ['with a dot behind it', 'sbx-1-agent-server.agents.example.', '/x', '200'],
    ['in capitals', 'SBX-1-AGENT-SERVER.AGENTS.EXAMPLE', '/x', '200'],
    ['of a port that is not exposed', 'sbx-1-ssh.agents.example', '/x', nowhere],
    ['of a port by number', 'sbx-1-22.agents.example', '/x', nowhere],
    ['with something before it', 'evil.sbx-1-agent-server.agents.example', '/x', nowhere],
    ['with something behind it', 'sbx-1-agent-server.agents.example.evil', '/x', nowhere],
    ['of an address', '127.0.0.1-agent-server.agents.example', '/x', nowhere],
    ['with a user', 'sbx-1-agent-server.agents.example@evil', '/x', bad],
    ['with a path', 'sbx-1-agent-server.agents.example/../x', '/x', bad],
    [
      'and a path to the service, which is the agent’s there',
      'sbx-1-agent-server.agents.example',
      '/api/v1/users/me',
      '200',
    ],
    [
      'and a path to another sandbox',
      'sbx-1-agent-server.agents.example',
      '/sandboxes/sbx-2/AGENT_SERVER/',
      '200',
    ],
    ['and a host in it', 'sbx-1-agent-server.agents.example', '//evil.example/', bad],
    ['and a host in disguise', 'sbx-1-agent-server.agents.example', '/%2fevil.example/', bad],
    ['and a host behind a dot', 'sbx-1-agent-server.agents.example', '/.//evil.example/', bad],
    ['and a host behind a backslash', 'sbx-1-agent-server.agents.example', '/\\evil.example/', bad],
    [
      'and a host in a URL of the same',
      'sbx-1-agent-server.agents.example',
      'http://sbx-1-agent-server.agents.example//evil.example/',
      bad,
    ],
    ['and a URL of another host', 'sbx-1-agent-server.agents.example', 'http://x/alive', bad],
    [
      'and a URL of the same',
      'sbx-1-agent-server.agents.example',
      'http://sbx-1-agent-server.agents.example/x',
      '200',
    ],
  ])('by a host name: %s', async (_case, host, path, verdict) => {
    const outcome = await send('GET', path, keyed(), host);
    expect(verdictOf(outcome)).toBe(verdict);
    expectDecent(outcome);
    expect(agent.seen).toHaveLength(verdict === '200' ? 1 : 0);
  });
});
