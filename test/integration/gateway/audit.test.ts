import { generateKey } from '../../../src/gateway/auth/key.ts';
import { eventually } from '../../support/eventually.ts';
import { TestGateway, type RequestOptions } from '../../support/gateway/test-gateway.ts';

const secret = 'an unmistakable text';
const body = {
  initial_message: { content: [{ type: 'text', text: secret }] },
  initial_user_msg: secret,
  name: secret,
};

describe('the audit', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await TestGateway.start({ trustedProxies: ['loopback'] });
  });
  afterAll(() => gateway.stop());

  const lines = (requestId: string) =>
    gateway.log
      .filter(({ message, fields }) => message === 'Write' && fields['requestId'] === requestId)
      .map(({ fields }) => fields);
  /** Sends, reads the answer as far as it goes, and returns the lines about it. */
  const linesAbout = async (method: string, path: string, id: string, options: RequestOptions) => {
    const headers = { 'x-request-id': id, 'x-forwarded-for': '198.51.100.7', ...options.headers };
    const response = await gateway.open(method, path, { ...options, headers });
    response.destroy();
    await eventually('the request is over', () =>
      gateway.log.some(
        ({ message, fields }) => message === 'Request' && fields['requestId'] === id,
      ),
    );
    return { status: response.statusCode, lines: lines(id) };
  };
  const writes = () =>
    gateway.gateway.routes.filter(({ method, access }) => method !== 'get' && access === 'key');
  const pathOf = (path: string) => path.replaceAll(/\{\w+\}/g, 'none');

  it('has one line for each write, with who, what, from where and the outcome', async () => {
    for (const { method, path, operationId } of writes()) {
      const about = await linesAbout(method.toUpperCase(), pathOf(path), operationId, { body });
      expect(about.lines).toEqual([
        expect.objectContaining({
          action: operationId,
          owner: 'alice',
          key: expect.stringMatching(/^key-[0-9a-f]{12}$/) as string,
          client: '198.51.100.7',
          status: about.status,
          outcome: expect.stringMatching(
            (about.status ?? 0) < 300 ? /^ok$/ : /^(not-found|invalid-request)$/,
          ) as string,
        }),
      ]);
    }
  });

  it('has none for reads, nor for what is refused before it is known who asks', async () => {
    expect((await linesAbout('GET', '/api/v1/users/me', 'read', {})).lines).toEqual([]);
    expect((await linesAbout('HEAD', '/api/v1/users/me', 'head', {})).lines).toEqual([]);
    for (const { method, path, operationId } of writes()) {
      const about = await linesAbout(method.toUpperCase(), pathOf(path), `no-key-${operationId}`, {
        key: null,
        body,
      });
      expect(about).toEqual({ status: 401, lines: [] });
    }
  });

  it('names the problem of a write that was refused', async () => {
    const about = await linesAbout('POST', '/api/keys', 'refused', {
      body: { name: 'x', owner: 'bob' },
    });
    expect(about.lines).toMatchObject([
      { action: 'createKey', status: 403, outcome: 'forbidden', target: undefined },
    ]);
  });

  it('holds no key and no text of a message, nor does any other line', async () => {
    const key = generateKey();
    await gateway.get('/api/v1/users/me', { headers: { 'x-request-id': key } });
    const all = JSON.stringify(gateway.log);
    for (const hidden of [secret, gateway.alice, gateway.bob, key])
      expect(all).not.toContain(hidden);
  });
});
