import { createServer } from 'node:net';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fetch, request, type Dispatcher } from 'undici';
import { silentLogger } from '@conversation-operator/base/logger';
import { startJsonHost, type JsonHost } from '../../../test/support/json-host.ts';
import { startOutside, type OutsideOptions } from '../../../test/support/outside.ts';
import { privateAuthority } from '../../../test/support/private-authority.ts';
import { createOutward, type PoolOptions } from '../src/outward.ts';
import { proxyErrorIn } from '../src/proxy-error.ts';
import { proxyServerOf, withoutProxies, type Proxies } from '../src/proxies.ts';
import { TrustFile } from '../src/trust-file.ts';

const authority = privateAuthority(['git.example.test', 'localhost']);
let host: JsonHost;
let folder: string;
let stack: AsyncDisposableStack;
let now = 0;
beforeEach(async () => {
  stack = new AsyncDisposableStack();
  host = await startJsonHost(() => ({ body: { ok: true } }));
  stack.defer(() => host.close());
  folder = mkdtempSync(join(tmpdir(), 'outward-'));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'ca.crt'), authority.ca);
});
afterEach(() => stack.disposeAsync());

const outside = async (options: Partial<OutsideOptions> = {}) =>
  stack.use(
    await startOutside({
      authority,
      https: { 'git.example.test': host.url },
      http: { 'plain.example.test': host.url },
      ...options,
    }),
  );
const pool = (
  proxyUrl: string,
  options: Partial<PoolOptions> = {},
  proxies: Partial<Proxies> = {},
): Dispatcher => {
  const server = proxyServerOf(proxyUrl);
  const trust = new TrustFile({
    path: join(folder, 'ca.crt'),
    clock: { monotonic: () => now },
    logger: silentLogger,
  });
  const dispatcher = createOutward({
    proxies: { ...withoutProxies, https: server, http: server, ...proxies },
    trust,
  }).pool({ connections: 4, connectTimeoutMs: 5000, ...options });
  stack.defer(() => dispatcher.destroy());
  return dispatcher;
};
const get = async (dispatcher: Dispatcher, url: string) => {
  const { statusCode, body } = await request(url, {
    dispatcher,
    headers: { authorization: 'Bearer t0ken' },
  });
  return [statusCode, await body.json()];
};
const failureOf = async (dispatcher: Dispatcher, url: string) => {
  const error: unknown = await get(dispatcher, url).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  const { code, message = '' } = proxyErrorIn(error) ?? {};
  return { code, message };
};

it('reaches an https host through a tunnel, which shows the proxy no header', async () => {
  const proxy = await outside({ user: 'us:er' });
  const dispatcher = pool(`http://us:er@127.0.0.1:${proxy.port}`, { connections: 1 });
  for (let round = 0; round < 3; round++)
    expect(await get(dispatcher, 'https://git.example.test/a?b=c')).toEqual([200, { ok: true }]);
  // One connection is used again.
  expect(proxy.requests).toEqual(['CONNECT git.example.test:443']);
  expect(proxy.bytes()).not.toMatch(/t0ken|authorization: Bearer/i);
  expect(host.calls[0]?.headers).toMatchObject({ authorization: 'Bearer t0ken' });
  expect(host.calls[0]?.headers).not.toHaveProperty('proxy-authorization');
});

it('keeps the limit of connections to a host behind a proxy', async () => {
  const proxy = await outside();
  const dispatcher = pool(`http://127.0.0.1:${proxy.port}`, { connections: 2 });
  await Promise.all(
    Array.from({ length: 8 }, () => get(dispatcher, 'https://git.example.test:8443/')),
  );
  expect(proxy.requests).toEqual(Array(2).fill('CONNECT git.example.test:8443'));
});

it('reaches an http host by absolute URLs', async () => {
  const proxy = await outside({ user: 'us:er' });
  const dispatcher = pool(`http://us:er@127.0.0.1:${proxy.port}`);
  const url = 'http://plain.example.test:8080/a?b=c';
  expect(await get(dispatcher, url)).toEqual([200, { ok: true }]);
  const answer = await fetch(url, { dispatcher, method: 'POST', body: '{}' });
  expect(await answer.json()).toEqual({ ok: true });
  expect(proxy.requests).toEqual([`GET ${url}`, `POST ${url}`]);
  expect(host.targets).toEqual(['GET /a?b=c', 'POST /a?b=c']);
  expect(host.calls[0]?.headers.host).toBe('plain.example.test:8080');
  expect(host.calls[0]?.headers).not.toHaveProperty('proxy-authorization');
});

it('speaks TLS with a proxy whose certificate is of the file', async () => {
  const proxy = await outside({ isSecure: true });
  const dispatcher = pool(`https://localhost:${proxy.port}`);
  expect(await get(dispatcher, 'https://git.example.test/')).toEqual([200, { ok: true }]);
  expect(await get(dispatcher, 'http://plain.example.test/')).toEqual([200, { ok: true }]);
  expect(proxy.requests).toEqual([
    'CONNECT git.example.test:443',
    'GET http://plain.example.test/',
  ]);
});

it.each([
  ['127.0.0.1', 'localhost', 'localhost'],
  ['127.0.0.1', '127.0.0.1', '127.0.0.1'],
  ['::1', '::1', '[::1]'],
])('speaks TLS with a proxy at %s, whose certificate has %s alone', async (address, own, name) => {
  const proxyAuthority = privateAuthority([own]);
  writeFileSync(join(folder, 'ca.crt'), `${authority.ca}${proxyAuthority.ca}`);
  const proxy = await outside({ isSecure: true, address, proxyAuthority });
  const dispatcher = pool(`https://${name}:${proxy.port}`);
  expect(await get(dispatcher, 'https://git.example.test/')).toEqual([200, { ok: true }]);
  expect(await get(dispatcher, 'http://plain.example.test/')).toEqual([200, { ok: true }]);
});

it('sends no credentials to a proxy that has the certificate of another host', async () => {
  const proxyAuthority = privateAuthority(['git.example.test', 'plain.example.test']);
  writeFileSync(join(folder, 'ca.crt'), `${authority.ca}${proxyAuthority.ca}`);
  const proxy = await outside({ isSecure: true, proxyAuthority });
  const dispatcher = pool(`https://us:er@localhost:${proxy.port}`);
  for (const url of ['https://git.example.test/', 'http://plain.example.test/'])
    expect(await failureOf(dispatcher, url)).toMatchObject({ code: 'PROXY_UNREACHABLE' });
  expect(proxy.requests).toEqual([]);
});

it('calls hosts of NO_PROXY and loopback directly', async () => {
  const proxy = await outside();
  const dispatcher = pool(`http://127.0.0.1:${proxy.port}`);
  expect(await get(dispatcher, `${host.url}/own`)).toEqual([200, { ok: true }]);
  const direct = pool(`http://127.0.0.1:${proxy.port}`, {}, { noProxy: () => true });
  await expect(get(direct, 'https://git.example.test/')).rejects.toMatchObject({
    code: expect.stringMatching(/ENOTFOUND|EAI_AGAIN/) as string,
  });
  expect(proxy.requests).toEqual([]);
});

it('follows a change of the certificates in both directions, without a restart', async () => {
  const proxy = await outside();
  writeFileSync(join(folder, 'ca.crt'), privateAuthority(['other.test']).ca);
  const dispatcher = pool(`http://127.0.0.1:${proxy.port}`, { connections: 1 });
  const untrusted = { code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' };
  const at = (port: number) => get(dispatcher, `https://git.example.test:${port}/`);
  await expect(at(443)).rejects.toMatchObject(untrusted);
  writeFileSync(join(folder, 'ca.crt'), authority.ca);
  now += 3000;
  expect(await at(443)).toEqual([200, { ok: true }]);
  writeFileSync(join(folder, 'ca.crt'), privateAuthority(['other.test']).ca);
  now += 3000;
  // The connection to the first port stays, a new one needs the new certificates.
  await expect(at(8443)).rejects.toMatchObject(untrusted);
});

describe('a proxy that', () => {
  const secret = 'p4ssw0rd';
  it.each([
    ['wants other credentials', 407, 'PROXY_AUTHENTICATION', 'answers 407'],
    ['refuses the host', 403, 'PROXY_REFUSED', 'answers 403'],
    ['redirects', 302, 'PROXY_REFUSED', 'answers 302'],
    ['does not reach the host', 502, 'PROXY_GATEWAY', 'answers 502'],
    ['never answers', 0, 'PROXY_TIMEOUT', 'does not answer in time'],
  ])('%s is at fault for an https host', async (_name, status, code, message) => {
    const proxy = await outside();
    proxy.refusal = status;
    const dispatcher = pool(`http://user:${secret}@127.0.0.1:${proxy.port}`, {
      connectTimeoutMs: status === 0 ? 100 : 5000,
      connections: 1,
    });
    const failure = await failureOf(dispatcher, 'https://git.example.test/');
    expect(failure).toEqual({ code, message: expect.stringContaining(message) as string });
    expect(failure.message).not.toContain(secret);
    // The next request finds the proxy that works again.
    proxy.refusal = undefined;
    const again = pool(`http://127.0.0.1:${proxy.port}`);
    expect(await get(again, 'https://git.example.test/')).toEqual([200, { ok: true }]);
  });

  it('wants other credentials is at fault for an http host', async () => {
    const proxy = await outside();
    proxy.refusal = 407;
    const dispatcher = pool(`http://user:${secret}@127.0.0.1:${proxy.port}`);
    expect(await failureOf(dispatcher, 'http://plain.example.test/')).toMatchObject({
      code: 'PROXY_AUTHENTICATION',
    });
    const error: unknown = await fetch('http://plain.example.test/', { dispatcher }).catch(
      (reason: unknown) => reason,
    );
    expect(proxyErrorIn(error)?.code).toBe('PROXY_AUTHENTICATION');
  });

  it.each(['https://git.example.test/', 'http://plain.example.test/'])(
    'is not there is at fault for %s',
    async (url) => {
      const dispatcher = pool('http://127.0.0.1:1');
      expect(await failureOf(dispatcher, url)).toEqual({
        code: 'PROXY_UNREACHABLE',
        message: 'The proxy can not be reached: ECONNREFUSED',
      });
    },
  );

  it('hangs up is at fault', async () => {
    const server = createServer((socket) => socket.once('data', () => socket.destroy()));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    stack.defer(() => void server.close());
    const { port } = server.address() as AddressInfo;
    expect(await failureOf(pool(`http://127.0.0.1:${port}`), 'https://git.example.test/')).toEqual({
      code: 'PROXY_UNREACHABLE',
      message: expect.stringContaining('The proxy can not be reached') as string,
    });
  });

  it('has a certificate that is not trusted is at fault', async () => {
    const proxy = await outside({ isSecure: true });
    writeFileSync(join(folder, 'ca.crt'), privateAuthority(['other.test']).ca);
    const dispatcher = pool(`https://localhost:${proxy.port}`);
    expect(await failureOf(dispatcher, 'https://git.example.test/')).toEqual({
      code: 'PROXY_UNREACHABLE',
      message: 'The proxy can not be reached: UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    });
  });
});
