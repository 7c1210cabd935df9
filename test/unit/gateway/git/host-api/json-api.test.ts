import { directly } from '@conversation-operator/outward/outward';
import { z } from 'zod';
import { HostApiError } from '../../../../../src/gateway/git/host-api/host-api.ts';
import { newApiDispatcher, newJsonApi } from '../../../../../src/gateway/git/host-api/json-api.ts';
import {
  startJsonHost,
  type JsonAnswer,
  type JsonHandler,
  type JsonHost,
} from '../../../../support/json-host.ts';

const token = 's3cret-token';
const schema = z.object({ name: z.string() });
const good = { body: { name: 'shop' } };

describe('a client for JSON', () => {
  const dispatcher = newApiDispatcher(directly);
  const hosts: JsonHost[] = [];
  afterEach(async () => {
    for (const host of hosts.splice(0)) await host.close();
  });
  afterAll(() => dispatcher.destroy());

  const aHost = async (handle: JsonHandler): Promise<JsonHost> => {
    const host = await startJsonHost(handle);
    hosts.push(host);
    return host;
  };
  const clientOf = (host: JsonHost, path = '/base/', timeoutMs = 15_000) =>
    newJsonApi({
      baseUrl: new URL(path, host.url),
      dispatcher,
      authorization: (text) => `Bearer ${text}`,
      timeoutMs,
      maxBodyBytes: 1000,
    });
  const access = (signal = new AbortController().signal) => ({ token, signal });
  /** The error of a request; the token is nowhere in it. */
  const errorOf = async (promise: Promise<unknown>): Promise<HostApiError> => {
    const error: unknown = await promise.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    if (!(error instanceof HostApiError)) throw new Error('no error of an API', { cause: error });
    expect(`${error.message} ${String(error.stack)} ${String(error.cause)}`).not.toContain(token);
    return error;
  };
  const refusal = async (answer: JsonAnswer, body?: object) => {
    const host = await aHost(() => answer);
    const request = { path: '/x', ...(body === undefined ? {} : { body: { ...body } }) };
    return errorOf(clientOf(host).ask(access(), request, schema));
  };

  it('sends the token, and a body once as JSON', async () => {
    const host = await aHost(() => good);
    const query = { q: 'a&b', page: 2 };
    const found = await clientOf(host).ask(access(), { path: '/x', query, body: { a: 1 } }, schema);
    expect(found).toEqual({ name: 'shop' });
    expect(host.calls).toMatchObject([
      {
        method: 'POST',
        target: '/base/x?q=a%26b&page=2',
        body: { a: 1 },
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      },
    ]);
  });

  it.each<[number, Record<string, string>, string]>([
    [401, {}, 'denied'],
    [403, {}, 'denied'],
    [403, { 'x-ratelimit-remaining': '1' }, 'denied'],
    [403, { 'x-ratelimit-remaining': '0' }, 'busy'],
    [403, { 'retry-after': '60' }, 'busy'],
    [429, {}, 'busy'],
    [404, {}, 'not-found'],
    [410, {}, 'not-found'],
    [423, {}, 'denied'],
    [400, {}, 'invalid'],
    [409, {}, 'invalid'],
    [422, {}, 'invalid'],
    [500, {}, 'unavailable'],
    [503, { 'retry-after': '60' }, 'unavailable'],
    [304, {}, 'unavailable'],
  ])('takes status %i with %j as %s', async (status, headers, code) => {
    const error = await refusal({ status, headers, ...(status === 304 ? { text: '' } : {}) });
    expect(error).toMatchObject({ code });
  });

  it.each<[string, unknown, string]>([
    ['a text', { message: 'Not so' }, ': Not so'],
    [
      'texts of fields',
      { message: 'Validation Failed', errors: [{ message: 'no commits', field: 'head' }, 'x'] },
      ': Validation Failed; no commits; x',
    ],
    ['a list of texts', { message: ['one', 'two'] }, ': one; two'],
    ['texts by name', { message: { base: ['bad'], head: ['worse'] } }, ': bad; worse'],
    [
      'another field',
      { error: 'insufficient_scope', error_description: 'x' },
      ': insufficient_scope',
    ],
    ['control characters', { message: 'a\u001b[31m\u202eb\r\n\tc' }, ': a[31mb c'],
    ['the token', { message: `Bearer ${token}, as x${token}x` }, ': Bearer …, as x…x'],
    [
      'the token at the end of what is shown',
      { message: `${'a'.repeat(295)}${token}` },
      `: ${'a'.repeat(295)}…`,
    ],
    ['a huge text', { message: 'b'.repeat(900) }, `: ${'b'.repeat(300)}`],
    ['deep objects', { message: { a: { b: { c: { d: ['x'] } } } } }, ''],
    ['no object', 'text', ': text'],
    ['nothing', null, ''],
  ])('words a refusal with %s', async (_what, body, expected) => {
    const error = await refusal({ status: 422, body });
    expect(error.message).toBe(`The API of the git host answers 422${expected}`);
  });

  it('asks the request for the meaning of a refusal', async () => {
    const host = await aHost(() => ({ status: 409, body: { message: 'already' } }));
    const refusedAs = ({ status, text }: { status: number; text: string }) =>
      status === 409 && text === 'already' ? ('exists' as const) : ('invalid' as const);
    const request = { path: '/x', body: {}, refusedAs };
    expect(await errorOf(clientOf(host).ask(access(), request, schema))).toMatchObject({
      code: 'exists',
    });
  });

  it.each<[string, JsonAnswer, string]>([
    ['a page for people', { text: '<html>' }, 'gives an answer of another form'],
    ['nothing', { text: '' }, 'gives an answer of another form'],
    ['another type', { body: { name: 1 } }, 'gives an answer with a wrong name'],
    [
      'more than is read',
      { body: { name: 'x'.repeat(1000) } },
      'gives an answer of more than 1000 bytes',
    ],
    [
      'an error of more than is read',
      { status: 500, text: 'x'.repeat(9000) },
      'gives an answer of more than 1000 bytes',
    ],
  ])('refuses %s', async (_what, answer, message) => {
    expect(await refusal(answer)).toMatchObject({
      code: 'unavailable',
      message: `The API of the git host ${message}`,
    });
  });

  it('follows two redirects within the API, and keeps the token', async () => {
    const host = await aHost(({ target }) => {
      const next = { '/base/a': '/base/b', '/base/b': '/base/c?x=1' }[target];
      return next === undefined ? good : { status: 301, headers: { location: next } };
    });
    expect(await clientOf(host).ask(access(), { path: '/a' }, schema)).toEqual({ name: 'shop' });
    expect(host.calls.map(({ headers }) => headers.authorization)).toEqual([
      `Bearer ${token}`,
      `Bearer ${token}`,
      `Bearer ${token}`,
    ]);
  });

  it('refuses a third redirect', async () => {
    const host = await aHost(() => ({ status: 302, headers: { location: '/base/again' } }));
    expect(await errorOf(clientOf(host).ask(access(), { path: '/a' }, schema))).toMatchObject({
      code: 'unavailable',
      message: 'The API of the git host redirects to an address that is not followed',
    });
    expect(host.calls).toHaveLength(3);
  });

  it.each<[string, (other: string, own: string) => string | undefined]>([
    ['to another origin', (other) => `${other}/base/x`],
    ['to another origin without a scheme', (other) => other.replace('http:', '')],
    ['to another scheme', (_other, own) => own.replace('http:', 'https:')],
    ['out of the API', () => '/elsewhere'],
    ['out of the API by dots', () => '/base/../elsewhere'],
    ['to a user', (_other, own) => `${own.replace('//', '//user@')}/base/x`],
    ['nowhere', () => undefined],
    ['to no URL', () => 'http://['],
  ])('sends nothing where the host redirects %s', async (_where, locationOf) => {
    const other = await aHost(() => good);
    const host: JsonHost = await aHost(({ target }) => {
      const location = locationOf(other.url, host.url);
      return target === '/base/a'
        ? { status: 302, headers: location === undefined ? {} : { location } }
        : good;
    });
    expect(await errorOf(clientOf(host).ask(access(), { path: '/a' }, schema))).toMatchObject({
      code: 'unavailable',
    });
    expect([host.calls.length, other.calls.length]).toEqual([1, 0]);
  });

  it('follows no redirect of a request that changes something', async () => {
    const host = await aHost(({ target }) =>
      target === '/base/a' ? { status: 307, headers: { location: '/base/b' } } : good,
    );
    const request = { path: '/a', body: {} };
    expect(await errorOf(clientOf(host).ask(access(), request, schema))).toMatchObject({
      code: 'not-found',
    });
    expect(host.calls).toHaveLength(1);
  });

  it('gives up in time where nothing comes, or not all', async () => {
    const silent = await aHost(() => undefined);
    const slow = await aHost((_call, { response }) => {
      response.writeHead(200).write('{');
      return undefined;
    });
    for (const host of [silent, slow]) {
      const impatient = clientOf(host, '/', 500);
      expect(await errorOf(impatient.ask(access(), { path: '/a' }, schema))).toMatchObject({
        code: 'unavailable',
        message: 'The API of the git host does not answer in time',
      });
    }
  });

  it.each(['/a/../b', '/..', '/a/./b', '/a/%2e%2e/b'])('asks nothing at %s', async (path) => {
    const host = await aHost(() => good);
    expect(await errorOf(clientOf(host).ask(access(), { path }, schema))).toMatchObject({
      code: 'not-found',
    });
    expect(host.calls).toEqual([]);
  });

  it('throws the reason of the signal', async () => {
    const aborted = new AbortController();
    const host = await aHost(() => {
      aborted.abort(new Error('enough'));
      return undefined;
    });
    const ask = () => clientOf(host).ask(access(aborted.signal), { path: '/a' }, schema);
    await expect(ask()).rejects.toThrow('enough');
    await expect(ask()).rejects.toThrow('enough');
    expect(host.calls).toHaveLength(1);
  });

  it.each([
    [undefined, 2],
    [{ a: 1 }, 1],
  ])(
    'sends a request with body %j at most %i times into closed connections',
    async (body, times) => {
      const host = await aHost((_call, { request }) => {
        request.socket.destroy();
        return undefined;
      });
      const request = { path: '/a', ...(body === undefined ? {} : { body }) };
      expect(await errorOf(clientOf(host).ask(access(), request, schema))).toMatchObject({
        code: 'unavailable',
        message: 'The API of the git host does not answer',
      });
      expect(host.calls).toHaveLength(times);
    },
  );

  it('is unavailable where no host is', async () => {
    const host = await startJsonHost(() => good);
    await host.close();
    expect(await errorOf(clientOf(host).ask(access(), { path: '/a' }, schema))).toMatchObject({
      code: 'unavailable',
    });
  });

  it('reads the number of all items', async () => {
    const host = await aHost(({ target }) => ({
      body: ['a'],
      headers: target === '/a' ? { 'x-total-count': '120' } : { 'x-total-count': '-1' },
    }));
    const list = (path: string) =>
      clientOf(host, '/').list(access(), { path }, z.array(z.string()));
    expect(await list('/a')).toEqual({ items: ['a'], total: 120 });
    expect(await list('/b')).toEqual({ items: ['a'], total: undefined });
  });
});
