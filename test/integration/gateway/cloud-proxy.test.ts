import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { sandboxes } from '../../../src/resources/sandbox.ts';
import { StubAgent } from '../../support/gateway/stub-agent.ts';
import { sessionCookie } from '../../support/gateway/session.ts';
import { namespace, TestGateway } from '../../support/gateway/test-gateway.ts';

let agent: StubAgent;
let gateway: TestGateway;
let templated: TestGateway;
let key = '';
let foreignKey = '';
let agentKey: string;
/** A server of this machine that no request may reach, and the requests that have reached it. */
const elsewhere = createServer((request, response) => {
  reached.push(request.url ?? '');
  response.end('{}');
});
const reached: string[] = [];
let elsewherePort = 0;

beforeAll(async () => {
  agent = await StubAgent.start();
  gateway = await TestGateway.start();
  templated = await TestGateway.start({
    publicUrl: 'https://gateway.example',
    sandboxUrlTemplate: 'https://{sandbox}-{port}.boxes.example',
  });
  for (const one of [gateway, templated])
    for (const name of ['sbx-1', 'sbx-2']) await one.addSandbox(name, { status: agent.status });
  const [one, two] = await Promise.all(
    ['sbx-1', 'sbx-2'].map((name) => gateway.client.get(sandboxes, namespace, name)),
  );
  if (one === undefined || two === undefined) throw new Error('the sandboxes were not created');
  [key, foreignKey] = [gateway.sessionKeyOf(one), gateway.sessionKeyOf(two)];
  agentKey = gateway.keys.sessionKey(one.metadata.uid);
  await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve));
  elsewherePort = (elsewhere.address() as AddressInfo).port;
});
afterAll(async () => {
  await Promise.all([gateway.stop(), templated.stop()]);
  await agent.stop();
  elsewhere.closeAllConnections();
  elsewhere.close();
});
beforeEach(() => {
  agent.reset();
  reached.length = 0;
});

const host = (name = 'sbx-1') => `${gateway.url}/sandboxes/${name}/AGENT_SERVER`;
const wish = (changes: object = {}) => ({
  host: host(),
  method: 'POST',
  path: '/api/conversations/1/events?a=b',
  headers: { 'X-Session-API-Key': key },
  body: { role: 'user' },
  ...changes,
});
const ask = async (changes: object = {}, headers: Record<string, string> = {}, by = gateway) => {
  const response = await by.open('POST', '/api/cloud-proxy', { body: wish(changes), headers });
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return {
    status: response.statusCode,
    headers: response.headers,
    text: Buffer.concat(chunks).toString(),
  };
};

describe('a request that contains one for an agent', () => {
  it('reaches the agent with its method, path and body, and with the key of the agent', async () => {
    const { status } = await ask({}, { cookie: 'a=b', 'x-forwarded-for': '9.9.9.9' });
    expect(status).toBe(200);
    const [seen] = agent.seen;
    expect(seen).toMatchObject({
      method: 'POST',
      url: '/api/conversations/1/events?a=b',
      body: '{"role":"user"}',
    });
    expect(seen?.headers).toMatchObject({
      'content-type': 'application/json',
      'x-session-api-key': agentKey,
      'x-forwarded-for': '127.0.0.1',
    });
    expect(JSON.stringify(seen?.headers)).not.toContain(gateway.alice);
    expect(seen?.headers).not.toHaveProperty('cookie');
  });

  it('gets the answer of the agent, with its status, and nothing that acts in our name', async () => {
    agent.answer = (request, response) => {
      request.resume();
      response.writeHead(418, {
        'content-type': 'application/json',
        'set-cookie': 'a=b',
        'access-control-allow-origin': '*',
        'www-authenticate': 'Basic',
      });
      response.end('{"from":"agent"}');
    };
    const { status, headers, text } = await ask();
    expect([status, text]).toEqual([418, '{"from":"agent"}']);
    expect(headers).toMatchObject({ 'content-security-policy': 'sandbox' });
    for (const name of ['set-cookie', 'access-control-allow-origin', 'www-authenticate'])
      expect(headers).not.toHaveProperty(name);
  });

  it('follows no redirect, and shows the client none to follow', async () => {
    agent.answer = (request, response) => {
      request.resume();
      response.writeHead(307, {
        location: `http://127.0.0.1:${elsewherePort}/`,
        'content-location': `${gateway.url}/api/v1/app-conversations`,
      });
      response.end();
    };
    const { status, headers } = await ask();
    expect(status).toBe(307);
    expect(headers).not.toHaveProperty('location');
    expect(headers).not.toHaveProperty('content-location');
    expect(reached).toEqual([]);
  });

  it('passes no other header on, and none that is there twice', async () => {
    await ask({
      headers: {
        'X-Session-API-Key': key,
        Connection: 'keep-alive, x-session-api-key',
        'Transfer-Encoding': 'chunked',
        Cookie: 'a=b',
        Host: 'evil.example',
        'X-Forwarded-For': '9.9.9.9',
        'X-Init-Api-Key': 'a',
        'X-Bad': 'a\r\nx-injected: 1',
      },
    });
    const { headers } = agent.seen[0] ?? { headers: {} };
    expect(headers).toMatchObject({
      'x-session-api-key': agentKey,
      'x-forwarded-for': '127.0.0.1',
    });
    for (const name of ['cookie', 'transfer-encoding', 'x-init-api-key', 'x-bad', 'x-injected'])
      expect(headers).not.toHaveProperty(name);
    expect(agent.seen[0]?.headers.host).not.toBe('evil.example');
    const twice = await ask({
      headers: { 'X-Session-API-Key': key, 'x-session-api-key': 'other' },
    });
    expect(twice.status).toBe(403);
  });

  it('has a body as large as an image makes it, and no larger one', async () => {
    const image = 'a'.repeat(4 * 1024 * 1024);
    expect((await ask({ body: { image } })).status).toBe(200);
    expect(agent.seen[0]?.body).toHaveLength(JSON.stringify({ image }).length);
    const { status, text } = await ask({ body: { image: 'a'.repeat(6 * 1024 * 1024) } });
    expect([status, text]).toEqual([413, expect.stringContaining('larger than 6 MiB')]);
  });

  it('frees the room of its body, so that one follows the other', async () => {
    const image = 'a'.repeat(4 * 1024 * 1024);
    for (let turn = 0; turn < 4; turn += 1)
      expect((await ask({ body: { image } })).status).toBe(200);
  });

  it('has no body with GET', async () => {
    await ask({ method: 'GET' });
    expect(agent.seen[0]).toMatchObject({ method: 'GET', body: '' });
    expect(agent.seen[0]?.headers).not.toHaveProperty('content-length');
  });
});

describe('the agent in it', () => {
  it('may be named with a slash at the end', async () => {
    expect((await ask({ host: `${host()}/` })).status).toBe(200);
  });

  it('may be named by its own origin', async () => {
    const named = { host: 'https://sbx-1-agent-server.boxes.example' };
    const sandbox = await templated.client.get(sandboxes, namespace, 'sbx-1');
    const headers = { 'x-session-api-key': templated.sessionKeyOf(sandbox) };
    expect((await ask({ ...named, headers }, {}, templated)).status).toBe(200);
    const path = { host: 'https://gateway.example/sandboxes/sbx-1/AGENT_SERVER' };
    expect((await ask({ ...path, headers }, {}, templated)).status).toBe(200);
  });

  const foreign: readonly (readonly [string, (port: number) => string])[] = [
    ['another server of this machine', (port) => `http://127.0.0.1:${port}`],
    ['a path of it', (port) => `http://127.0.0.1:${port}/sandboxes/sbx-1/AGENT_SERVER`],
    ['the service itself', () => gateway.url],
    ['a path of the service', () => `${gateway.url}/api/v1/app-conversations`],
    ['a path of the agent', () => `${host()}/api`],
    ['dots in the path', () => `${gateway.url}/sandboxes/sbx-1/AGENT_SERVER/../../..`],
    ['a user in front of another host', (port) => `${host()}@127.0.0.1:${port}`],
    ['a user', () => host().replace('://', '://user:password@')],
    [
      'our host as a user',
      (port) => `${gateway.url}@127.0.0.1:${port}/sandboxes/sbx-1/AGENT_SERVER`,
    ],
    ['a query', () => `${host()}?a=b`],
    ['a fragment', () => `${host()}#a`],
    ['a backslash', (port) => `http://127.0.0.1:${port}\\${host()}`],
    ['another scheme', () => host().replace('http:', 'https:')],
    ['another port of the agent', () => `${gateway.url}/sandboxes/sbx-1/VSCODE`],
    ['the address of the pod', () => `http://${agent.status.podIP ?? ''}:${agent.port}`],
    ['a line break', () => `${host()}\r\nx: y`],
    ['nothing', () => ''],
  ];
  it.each(foreign)('is not %s', async (_case, url) => {
    const { status, text } = await ask({ host: url(elsewherePort) });
    expect([status, text]).toEqual([403, expect.stringContaining('no agent of this service')]);
    expect(agent.seen).toEqual([]);
    expect(reached).toEqual([]);
  });

  it.each(
    [
      'https://evil.example',
      'https://sbx-1-agent-server.boxes.example.evil.example',
      'https://SBX-1-agent-server.boxes.example',
      'https://sbx-1-agent-server.boxes.example:444',
      'https://a@sbx-1-agent-server.boxes.example',
      'http://sbx-1-agent-server.boxes.example',
    ].filter((url) => !url.endsWith('example/')),
  )('has no other origin: %s', async (url) => {
    expect((await ask({ host: url }, {}, templated)).status).toBe(403);
  });

  it.each([
    ['its key', () => ({})],
    ["another one's key", () => ({ 'X-Session-API-Key': foreignKey })],
    ['an API key in the place of its key', () => ({ 'X-Session-API-Key': gateway.alice })],
  ])('is not reached without %s, also at its open paths', async (_case, headers) => {
    for (const path of ['/api/conversations', '/health']) {
      const known = await ask({ method: 'GET', path, headers: headers() });
      const unknown = await ask({ method: 'GET', path, host: host('sbx-9'), headers: headers() });
      expect([known.status, unknown.status]).toEqual([403, 403]);
      const comparable = ({ text }: typeof known) => text.replace(/"request_id":"[^"]+"/, '');
      expect(comparable(known)).toBe(comparable(unknown));
    }
    expect(agent.seen).toEqual([]);
  });

  it.each(['//127.0.0.1/', '/../x', '/%2e%2e/x', '/a\\b', '/a b', '/a\r\nb: c'])(
    'gets no path that is not plain: %j',
    async (path) => {
      expect([400, 422]).toContain((await ask({ path })).status);
      expect(agent.seen).toEqual([]);
    },
  );

  it.each(['TRACE', 'CONNECT', 'OPTIONS', 'get'])('gets no %s', async (method) => {
    expect((await ask({ method })).status).toBe(422);
    expect(agent.seen).toEqual([]);
  });
});

describe('the sender of it', () => {
  const byCookie = async (origin: string, site: string) => {
    const cookie = await sessionCookie(gateway.url, gateway.alice);
    return gateway.send('POST', '/api/cloud-proxy', {
      key: null,
      body: wish(),
      headers: { cookie, origin, 'sec-fetch-site': site },
    });
  };

  it('is a page of this service with a session', async () => {
    expect((await byCookie(gateway.url, 'same-origin')).status).toBe(200);
  });

  it('is no page from elsewhere', async () => {
    expect((await byCookie('https://evil.example', 'cross-site')).status).toBe(401);
    expect((await byCookie('https://evil.example', 'same-origin')).status).toBe(403);
    expect(agent.seen).toEqual([]);
  });

  it('has a key or a session', async () => {
    const { status } = await gateway.send('POST', '/api/cloud-proxy', { key: null, body: wish() });
    expect(status).toBe(401);
  });

  it('is in the audit, with the sandbox and without a key', async () => {
    gateway.log.length = 0;
    await ask();
    const line = gateway.log.find(({ message }) => message === 'Write');
    expect(line?.fields).toMatchObject({
      action: 'passToAgent',
      owner: 'alice',
      target: 'sbx-1',
      status: 200,
    });
    expect(JSON.stringify(gateway.log)).not.toContain(key);
  });
});

describe('reports of use', () => {
  it('are dropped', async () => {
    const answer = await gateway.post('/api/analytics/events', { event: 'x' });
    expect([answer.status, answer.text]).toEqual([204, '']);
  });

  it('are bounded', async () => {
    const answer = await gateway.post('/api/analytics/events', { event: 'x'.repeat(2 ** 20) });
    expect(answer.status).toBe(413);
  });
});
