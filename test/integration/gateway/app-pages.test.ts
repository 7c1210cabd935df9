import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sessionCookie } from '../../support/gateway/session.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';

const script = "'use strict';document.title='a';";
const part = "document.title='b';";
const style = 'body{margin:0}';
const hashOf = (text: string): string =>
  `sha256-${createHash('sha256').update(text).digest('base64')}`;

let folder: string;
let gateway: TestGateway;
let cookie = '';
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'web-'));
  writeFileSync(join(folder, 'app.js'), script);
  writeFileSync(join(folder, 'styles.css'), style);
  mkdirSync(join(folder, 'parts'));
  writeFileSync(join(folder, 'parts', 'extra.js'), part);
  gateway = await TestGateway.start({ webDirectory: folder });
  cookie = await sessionCookie(gateway.url, gateway.alice);
});
afterAll(async () => {
  await gateway.stop();
  rmSync(folder, { recursive: true });
});

const read = (path: string, headers: Readonly<Record<string, string>> = {}) =>
  fetch(`http://127.0.0.1:${gateway.port}${path}`, {
    headers: { cookie, ...headers },
    redirect: 'manual',
  });
const scriptPath = async (): Promise<string> =>
  / src="([^"]+)"/.exec(await (await read('/')).text())?.[1] ?? '';

it.each([
  ['/', 'login?return_to=%2F'],
  ['/?new', 'login?return_to=%2F%3Fnew'],
  ['/account', 'login?return_to=%2Faccount'],
  ['/operate', 'login?return_to=%2Foperate'],
  ['/usage?span=week', 'login?return_to=%2Fusage%3Fspan%3Dweek'],
  ['/c/some-id', '../login?return_to=%2Fc%2Fsome-id'],
  ['/c/%2e%2e%2f', '../login?return_to=%2Fc%2F%252e%252e%252f'],
])('sends a browser without a session from %s to %s', async (path, location) => {
  for (const headers of [{ cookie: '' }, { cookie: `${cookie}x` }]) {
    const answer = await read(path, headers);
    expect([answer.status, answer.headers.get('location')]).toEqual([303, location]);
    expect(answer.headers.get('cache-control')).toBe('no-store');
  }
});

it('sends a browser without a session to the sign-in alone from an address that no header has room for', async () => {
  const { status, headers } = await read(`/c/some-id?${'%7B'.repeat(3_000)}`, { cookie: '' });
  expect(status).toBe(303);
  expect(headers.get('location')?.slice(0, 100)).toBe('../login');
});

it('serves the same document at every address of the app', async () => {
  const documents = await Promise.all(
    ['/', '/account', '/operate', '/usage', '/c/unknown'].map((path) => read(path)),
  );
  expect(documents.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
  const texts = await Promise.all(documents.map((document) => document.text()));
  expect(new Set(texts).size).toBe(1);
});

it('permits nothing but its own scripts and style', async () => {
  const document = await read('/');
  const html = await document.text();
  expect(Object.fromEntries(document.headers)).toMatchObject({
    'content-type': 'text/html; charset=utf-8',
    'x-frame-options': 'DENY',
    'referrer-policy': 'same-origin',
    'cross-origin-opener-policy': 'same-origin',
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-cache',
  });
  const policy = document.headers.get('content-security-policy') ?? '';
  expect(policy.split('; ')).toEqual([
    "default-src 'none'",
    `script-src '${hashOf(script)}' '${hashOf(part)}'`,
    `style-src '${hashOf(style)}'`,
    "worker-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data: blob:",
    "manifest-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    'trusted-types parts',
  ]);
  expect(html).toContain(`integrity="${hashOf(script)}"`);
  expect(html).not.toMatch(/ on\w+=| style=|<script>|https?:/);
});

it.each([
  ['packed', 'gzip', 'gzip'],
  ['as it is', 'identity', null],
])(
  'serves the script %s under a name that never changes its content',
  async (_how, accept, encoding) => {
    const answer = await read(await scriptPath(), { 'accept-encoding': accept });
    expect(await answer.text()).toBe(script);
    expect(answer.headers.get('content-encoding')).toBe(encoding);
    expect(answer.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    expect(answer.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
  },
);

it('gives the script the addresses of the parts of the page, and serves them', async () => {
  const html = await (await read('/')).text();
  const text = / data-parts="([^"]+)"/.exec(html)?.[1]?.replaceAll('&quot;', '"') ?? '';
  const { extra } = JSON.parse(text) as { extra: { src: string; integrity: string } };
  expect(extra.integrity).toBe(hashOf(part));
  const answer = await read(extra.src);
  expect(await answer.text()).toBe(part);
  expect(answer.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
});

it('has a manifest and an icon, so that the pages can be installed', async () => {
  const html = await (await read('/')).text();
  const address = / rel="manifest" href="([^"]+)"/.exec(html)?.[1] ?? '';
  // A browser asks for the manifest without the session.
  const answer = await read(address, { cookie: '' });
  expect(answer.headers.get('content-type')).toMatch(/^application\/manifest\+json/);
  const { icons, start_url: start } = (await answer.json()) as {
    icons: { src: string }[];
    start_url: string;
  };
  expect(start).toBe('/');
  const icon = await read(`${address.replace(/[^/]+$/, '')}${icons[0]?.src}`, { cookie: '' });
  expect([icon.status, icon.headers.get('content-type')]).toEqual([
    200,
    expect.stringMatching(/^image\/svg\+xml/),
  ]);
});

it('has no script of another name', async () => {
  expect((await read('/_web/app-0000000000000000.js')).status).toBe(404);
});

it('says that the pages were not built where they were not', async () => {
  const other = await TestGateway.start();
  try {
    const headers = { cookie: await sessionCookie(other.url, other.alice) };
    const document = await fetch(`${other.url}/`, { headers });
    expect(document.status).toBe(200);
    expect(await document.text()).toContain('were not built');
  } finally {
    await other.stop();
  }
});
