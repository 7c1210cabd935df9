import { CloudClient } from '@openhands/typescript-client/clients';
import { sendRaw } from '../../support/gateway/raw-http.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';

const start = '/api/v1/app-conversations';

describe('the type of problems', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await TestGateway.start({ rateLimits: { failedKeysPerMinute: 2 } });
    await gateway.addSandbox('sbx-1');
  });
  afterAll(() => gateway.stop());

  type Options = Parameters<TestGateway['send']>[2];
  it.each<[number, string, string, Options]>([
    [401, 'GET', start, { key: null }],
    [401, 'GET', '/sandboxes/sbx-1/AGENT_SERVER/api/x', { key: null }],
    [404, 'GET', '/nowhere', {}],
    [404, 'GET', '/api/conversations/00000000000000000000000000000000', {}],
    [405, 'PUT', start, {}],
    [413, 'POST', start, { rawBody: JSON.stringify({ title: 'x'.repeat(1_100_000) }) }],
    [415, 'POST', start, { rawBody: 'x', headers: { 'content-type': 'text/plain' } }],
    [422, 'POST', start, { body: {} }],
    [422, 'POST', '/api/conversations', { body: { title: 'x' } }],
    [429, 'GET', start, { key: null }],
  ])('is that of RFC 9457 for %i: %s %s', async (status, method, path, options) => {
    const answer = await gateway.send(method, path, options);
    expect(answer.status).toBe(status);
    expect(answer.headers['content-type']).toMatch(/^application\/problem\+json *(;|$)/);
    expect(answer.json).toMatchObject({ status, request_id: answer.headers['x-request-id'] });
  });

  it.each([
    ['431 Request Header Fields Too Large', `GET / HTTP/1.1\r\nx: ${'y'.repeat(40_000)}\r\n\r\n`],
    ['400 Bad Request', 'GET / HTTP/9.9\r\n\r\n'],
  ])('is that before any stage: %s', async (line, bytes) => {
    const { text } = await sendRaw(gateway.port, bytes);
    expect(text).toContain(line);
    expect(text).toMatch(/\r\ncontent-type: application\/problem\+json/i);
  });

  it('lets the client of npm read the fields of a problem', async () => {
    const client = new CloudClient({ host: gateway.url, apiKey: gateway.alice });
    await expect(client.pauseSandbox('none')).rejects.toMatchObject({
      response: { code: 'not-found', detail: 'There is no such sandbox.' },
    });
  });
});
