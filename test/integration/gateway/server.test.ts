import { problemType } from '../../../src/gateway/errors/problem-response.ts';
import { connect } from 'node:net';
import { once } from 'node:events';
import { gzipSync } from 'node:zlib';
import { ApiError } from '@conversation-operator/kube/errors';
import { TestGateway } from '../../support/gateway/test-gateway.ts';

const start = '/api/v1/app-conversations';
const hello = { initial_message: { content: [{ type: 'text', text: 'Hello' }] } };

describe('the server', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await TestGateway.start();
  });
  afterEach(() => {
    gateway.client.fault = () => undefined;
  });
  afterAll(() => gateway.stop());

  it.each<[string, number, string, { rawBody: string | Buffer; headers?: Record<string, string> }]>(
    [
      ['JSON that is truncated', 400, 'malformed-json', { rawBody: '{"initial_message":' }],
      ['a bare text', 400, 'malformed-json', { rawBody: '"hello"' }],
      [
        'a body over 1 MiB',
        413,
        'body-too-large',
        { rawBody: JSON.stringify({ x: 'x'.repeat(1024 * 1024) }) },
      ],
      [
        'a small body that is large unpacked',
        413,
        'body-too-large',
        {
          rawBody: gzipSync(JSON.stringify({ x: 'x'.repeat(2e6) })),
          headers: { 'content-encoding': 'gzip' },
        },
      ],
      [
        'a form',
        415,
        'unsupported-media-type',
        { rawBody: 'a=b', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
      ],
      [
        'plain text',
        415,
        'unsupported-media-type',
        { rawBody: '{}', headers: { 'content-type': 'text/plain' } },
      ],
      [
        'no type',
        415,
        'unsupported-media-type',
        { rawBody: '{}', headers: { 'content-type': '' } },
      ],
      [
        'another charset',
        415,
        'unsupported-media-type',
        { rawBody: '{}', headers: { 'content-type': 'application/json; charset=latin1' } },
      ],
      [
        'another encoding',
        415,
        'unsupported-media-type',
        { rawBody: '{}', headers: { 'content-encoding': 'zstd-9' } },
      ],
      ['an empty body', 422, 'invalid-request', { rawBody: '' }],
    ],
  )('answers %s with %i %s', async (_case, status, code, request) => {
    const answer = await gateway.send('POST', start, request);
    expect(answer).toMatchObject({
      status,
      json: { code, request_id: answer.headers['x-request-id'] },
    });
    expect(answer.headers['content-type']).toBe(problemType);
  });

  it('accepts a packed body and a charset of utf-8', async () => {
    const rawBody = gzipSync(JSON.stringify(hello));
    const headers = {
      'content-encoding': 'gzip',
      'content-type': 'application/json; charset=UTF-8',
    };
    expect(await gateway.send('POST', start, { rawBody, headers })).toMatchObject({ status: 200 });
  });

  it.each([
    ['GET', '/api/v1/nothing', 404, undefined],
    ['GET', '/nothing', 404, undefined],
    ['PUT', start, 405, 'POST, GET, HEAD'],
    ['GET', `${start}/stream-start`, 405, 'POST'],
    ['DELETE', `${start}/search`, 405, 'GET, HEAD'],
    ['GET', '/api/v1/sandboxes/sbx-1', 405, 'DELETE'],
    ['POST', '/alive', 405, 'GET, HEAD'],
    ['GET', '/api/v1/app-conversations/%E0%A4%A', 400, undefined],
  ])('answers %s %s with %i', async (method, path, status, allow) => {
    const answer = await gateway.send(method, path);
    expect(answer.status).toBe(status);
    expect(answer.headers.allow).toBe(allow);
  });

  it.each([
    ['a sane one is kept', 'abc-123.X:y_z', true],
    ['one with spaces is replaced', 'a b', false],
    ['one with markup is replaced', '<script>', false],
    ['a long one is replaced', 'x'.repeat(129), false],
  ])('gives each answer a request id: %s', async (_case, id, kept) => {
    for (const path of ['/alive', '/nowhere', start]) {
      const { headers } = await gateway.get(path, { headers: { 'x-request-id': id } });
      expect(headers['x-request-id'] === id).toBe(kept);
      expect(headers['x-request-id']).toMatch(/^[\w.:-]{1,128}$/);
    }
  });

  it.each<[number, string, number, string]>([
    [500, 'InternalError', 503, 'unavailable'],
    [503, 'ServiceUnavailable', 503, 'unavailable'],
    [429, 'TooManyRequests', 503, 'unavailable'],
    [403, 'Forbidden', 503, 'refused-by-cluster'],
    [422, 'Invalid', 422, 'invalid-request'],
  ])(
    'says nothing of what Kubernetes said: %i %s becomes %i %s',
    async (given, reason, status, code) => {
      gateway.client.fault = ({ verb }) =>
        verb === 'create'
          ? new ApiError(given, { reason, message: 'etcdserver: secret detail' })
          : undefined;
      const answer = await gateway.post(start, hello);
      expect(answer).toMatchObject({ status, json: { code } });
      expect(answer.text).not.toMatch(/etcd|secret/);
      expect(answer.headers['retry-after'] !== undefined).toBe(status === 503);
    },
  );

  it('counts requests by the pattern of their route', async () => {
    await gateway.get(`${start}/count?title__contains=x`);
    await gateway.get('/secret/nowhere');
    const { values } = await gateway.metrics.httpRequests.get();
    const labels = values.map(
      ({ labels: { method, route, status } }) => `${method ?? ''} ${route ?? ''} ${status ?? ''}`,
    );
    expect(labels).toContain('GET /api/v1/app-conversations/count 200');
    expect(labels).toContain('GET unmatched 404');
    expect(labels.join()).not.toContain('secret');
  });

  it('sends no header that shows what it is built on', async () => {
    const { headers } = await gateway.get('/alive');
    expect(headers).not.toHaveProperty('x-powered-by');
    expect(headers).not.toHaveProperty('etag');
  });

  it('answers the health endpoints without a key', async () => {
    const open = { key: null };
    expect(await gateway.get('/alive', open)).toMatchObject({
      status: 200,
      json: { status: 'ok' },
    });
    expect(await gateway.get('/health', open)).toMatchObject({ status: 200, text: '"OK"' });
    expect(await gateway.get('/ready', open)).toMatchObject({ status: 200 });
    expect((await gateway.get('/server_info', open)).json).toMatchObject({
      product_version: '0.0.0-test',
    });
    expect((await gateway.open('HEAD', '/alive', open)).statusCode).toBe(200);
  });

  it('refuses headers over 16 KiB', async () => {
    expect(
      (await gateway.open('GET', '/alive', { headers: { 'x-large': 'x'.repeat(17_000) } }))
        .statusCode,
    ).toBe(431);
  });

  it('says that its port is in use', async () => {
    await expect(TestGateway.start({ port: gateway.port })).rejects.toThrow(
      `the gateway can't listen on 127.0.0.1:${gateway.port}: the port is in use`,
    );
  });
});

describe('closing the server', () => {
  it('ends idle connections and takes no more', async () => {
    const gateway = await TestGateway.start();
    const socket = connect(gateway.port, '127.0.0.1');
    socket.write('GET /alive HTTP/1.1\r\nHost: x\r\n\r\n');
    await once(socket, 'data');
    const ended = once(socket, 'close');
    await gateway.stop();
    await ended;
    await expect(gateway.get('/alive')).rejects.toThrow('ECONNREFUSED');
  });

  it('says at /ready that it drains, and lets a request under way end', async () => {
    const gateway = await TestGateway.start({ drainMs: 200 });
    const closed = gateway.gateway.close();
    const ready = await gateway.get('/ready', { key: null });
    expect(ready).toMatchObject({ status: 503 });
    expect(ready.headers.connection).toBe('close');
    expect(await gateway.get('/api/v1/users/me')).toMatchObject({ status: 200 });
    await closed;
    await gateway.stop();
  });

  it('may be called twice, and without having listened', async () => {
    const gateway = await TestGateway.start();
    await Promise.all([gateway.gateway.close(), gateway.gateway.close()]);
    await gateway.stop();
  });
});
