import { TestGateway } from '../../support/gateway/test-gateway.ts';

const ui = 'https://ui.example.com';
const preflight = (origin: string, headers = 'authorization,x-openhands-client') => ({
  key: null,
  headers: {
    origin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': headers,
  },
});

describe('CORS', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await TestGateway.start({ corsOrigins: [ui, 'http://127.0.0.1:3001'] });
  });
  afterAll(() => gateway.stop());

  it.each([
    '/api/v1/app-conversations',
    '/api/v1/app-conversations/search',
    '/nowhere/at/all',
    '/sandboxes/sbx-1/AGENT_SERVER/x',
    '/api/conversations',
  ])('answers a preflight on %s without a key', async (path) => {
    const { status, headers, text } = await gateway.send('OPTIONS', path, preflight(ui));
    expect([status, text]).toEqual([204, '']);
    expect(headers).toMatchObject({
      'access-control-allow-origin': ui,
      'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
      'access-control-max-age': '7200',
      vary: 'Origin',
    });
    expect(headers['access-control-allow-headers']?.toLowerCase().split(', ')).toEqual([
      'authorization',
      'content-type',
      'x-org-id',
      'x-session-api-key',
      'idempotency-key',
      'last-event-id',
      'x-openhands-client',
      'x-openhands-client-version',
      'x-openhands-telemetry-distinct-id',
    ]);
    expect(headers).not.toHaveProperty('access-control-allow-credentials');
  });

  it.each<[string, number, string, object]>([
    ['a good answer', 200, '/api/v1/users/me', {}],
    ['a wrong key', 401, '/api/v1/users/me', { key: 'co_wrong' }],
    ['an unknown path', 404, '/nowhere', {}],
    ['a path that can not be read', 400, '/api/v1/app-conversations/%E0%A4%A', {}],
    ['a wrong parameter', 422, '/api/v1/app-conversations/search?limit=0', {}],
    ['an open endpoint', 200, '/alive', { key: null }],
  ])('allows the origin on %s', async (_case, status, path, options) => {
    const answer = await gateway.get(path, { ...options, headers: { origin: ui } });
    expect(answer.status).toBe(status);
    expect(answer.headers).toMatchObject({ 'access-control-allow-origin': ui, vary: 'Origin' });
  });

  it.each([
    ['https://ui.example.com.evil.example'],
    ['http://ui.example.com'],
    ['null'],
    ['https://other.example'],
  ])('allows nothing to %s', async (origin) => {
    for (const answer of [
      await gateway.get('/api/v1/users/me', { headers: { origin } }),
      await gateway.send('OPTIONS', '/api/v1/users/me', preflight(origin)),
    ]) {
      expect(
        Object.keys(answer.headers).filter((name) => name.startsWith('access-control-')),
      ).toEqual([]);
      // A cache must not give this answer to a page that is allowed.
      expect(answer.headers.vary).toBe('Origin');
    }
  });

  it('leaves an OPTIONS that is no preflight to the routes', async () => {
    expect(
      await gateway.send('OPTIONS', '/api/v1/users/me', { headers: { origin: ui } }),
    ).toMatchObject({ status: 405 });
  });

  it('counts preflights apart', async () => {
    await gateway.send('OPTIONS', '/nowhere', preflight(ui));
    const { values } = await gateway.metrics.httpRequests.get();
    expect(
      values.map(
        ({ labels: { method, route, status } }) => `${method ?? ''} ${route ?? ''} ${status ?? ''}`,
      ),
    ).toContain('OPTIONS preflight 204');
  });

  it('allows every origin with *', async () => {
    const open = await TestGateway.start({ corsOrigins: ['*'] });
    try {
      const { headers } = await open.get('/api/v1/users/me', {
        key: 'co_wrong',
        headers: { origin: 'https://any.example' },
      });
      expect(headers['access-control-allow-origin']).toBe('*');
      expect(headers).not.toHaveProperty('vary');
    } finally {
      await open.stop();
    }
  });

  it('is off by default', async () => {
    const closed = await TestGateway.start();
    try {
      const answer = await closed.send('OPTIONS', '/api/v1/users/me', preflight(ui));
      expect(answer.status).toBe(405);
      expect(
        Object.keys(answer.headers).filter((name) => name.startsWith('access-control-')),
      ).toEqual([]);
    } finally {
      await closed.stop();
    }
  });
});
