import { problemType } from '../../../src/gateway/errors/problem-response.ts';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { sessionCookie } from '../../support/gateway/session.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';

const inline = ['window.a=1', '\n  import "/assets/a.js";\n'] as const;
const script = 'export const a = 1;';
const html = `<!DOCTYPE html><html><head><script>${inline[0]}</script><link rel="modulepreload" href="/assets/a.js"/></head><body><script type="module" async="">${inline[1]}</script></body></html>`;
const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

let folder: string;
let gateway: TestGateway;
let cookie = '';
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ui-'));
  mkdirSync(join(folder, 'assets'));
  writeFileSync(join(folder, 'index.html'), html);
  writeFileSync(join(folder, 'assets', 'a.js.gz'), gzipSync(script));
  writeFileSync(join(folder, 'icon.png'), 'png');
  writeFileSync(join(folder, '..', 'beside.txt'), 'beside');
  gateway = await TestGateway.start({ uiDirectory: folder });
  cookie = await sessionCookie(gateway.url, gateway.alice);
});
afterAll(async () => {
  await gateway.stop();
  rmSync(folder, { recursive: true });
});

const read = (path: string, headers: Readonly<Record<string, string>> = {}) =>
  gateway.open('GET', path, {
    key: null,
    headers: { cookie, accept: 'text/html,*/*', ...headers },
  });
const textOf = async (response: AsyncIterable<Buffer>) => {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
};

describe('files of the web UI', () => {
  it.each([
    ['packed', 'gzip', 'gzip', gzipSync(script).length],
    ['as they are', 'identity', undefined, script.length],
  ])('are served %s', async (_how, accept, encoding, length) => {
    const { statusCode, headers } = await read('/assets/a.js', {
      'accept-encoding': accept,
      cookie: '',
    });
    expect(statusCode).toBe(200);
    expect(headers).toMatchObject({
      'content-type': 'text/javascript; charset=utf-8',
      'cache-control': 'public, max-age=31536000, immutable',
      'cross-origin-resource-policy': 'same-origin',
      'x-content-type-options': 'nosniff',
      'content-length': String(length),
    });
    expect(headers['content-encoding']).toBe(encoding);
  });

  it('have their content', async () => {
    const answer = await read('/assets/a.js', { 'accept-encoding': 'identity' });
    expect(await textOf(answer)).toBe(script);
  });

  it('are asked for anew where their names have no hash', async () => {
    const { headers } = await read('/icon.png');
    expect([headers['content-type'], headers['cache-control']]).toEqual(['image/png', 'no-cache']);
  });

  it.each([
    '/assets/none.js',
    '/assets/a.js.gz',
    '/assets/../../beside.txt',
    '/assets/%2e%2e/%2e%2e/beside.txt',
    '/assets/..%2f..%2fbeside.txt',
    '/assets/',
  ])('are no others: %s', async (path) => {
    const answer = await read(path);
    expect([400, 404]).toContain(answer.statusCode);
    expect(answer.headers['content-type']).toBe(problemType);
  });
});

describe('pages of the web UI', () => {
  it.each(['/conversations/some-id', '/conversations', '/settings/app', '/automations'])(
    'have its document: %s',
    async (path) => {
      const answer = await read(path);
      expect(answer.statusCode).toBe(200);
      expect(answer.headers).toMatchObject({
        'content-type': 'text/html; charset=utf-8',
        'cache-control': 'no-cache',
        'x-frame-options': 'DENY',
      });
      expect(await textOf(answer)).toBe(html);
    },
  );

  it('permit scripts by hash and from the built files, and connections to this origin', async () => {
    const { headers } = await read('/conversations/some-id');
    const host = `127.0.0.1:${gateway.port}`;
    const sources = String(headers['content-security-policy']).split('; ');
    expect(sources).toEqual([
      "default-src 'none'",
      `script-src ${inline.map(hashOf).join(' ')} ${host}/assets/`,
      `style-src ${host}/assets/ 'unsafe-inline'`,
      `connect-src 'self' http://${host} ws://${host}`,
      "img-src 'self' data: blob:",
      "media-src 'self' data: blob:",
      "font-src 'self' data:",
      "manifest-src 'self'",
      "base-uri 'none'",
      "form-action 'self'",
      "frame-ancestors 'none'",
    ]);
  });

  it.each(['evil.example; script-src *', "a' 'unsafe-inline'", '*', 'a,b'])(
    'take no source from the header Host: %s',
    async (host) => {
      const { headers, statusCode } = await read('/conversations/some-id', { host });
      const policy = String(headers['content-security-policy'] ?? '');
      expect([statusCode, policy]).toEqual(
        statusCode === 200 ? [200, expect.not.stringContaining(host)] : [statusCode, ''],
      );
    },
  );

  it.each([
    ['/conversations/some-id', '../login?return_to=%2Fconversations%2Fsome-id'],
    ['/settings?tab=a', 'login?return_to=%2Fsettings%3Ftab%3Da'],
  ])('send a browser without a session from %s to %s', async (path, location) => {
    const { statusCode, headers } = await read(path, { cookie: '' });
    expect([statusCode, headers.location]).toEqual([303, location]);
  });

  it.each([
    '/api/none',
    '/api',
    '/oauth/none',
    '/sandboxes/none',
    '/_web/none.js',
    '/health/none',
    '/c/a/b',
    '/operate/none',
    '/openapi.json/none',
  ])('are none of the service: %s', async (path) => {
    const { statusCode, headers } = await read(path);
    expect([statusCode, headers['content-type']]).toEqual([404, problemType]);
  });

  it('are for browsers alone', async () => {
    expect((await read('/settings', { accept: 'application/json' })).statusCode).toBe(404);
    const post = await gateway.open('POST', '/settings', { key: null, headers: { cookie } });
    expect(post.statusCode).toBe(404);
  });

  it('leave our own ones as they are', async () => {
    const answers = await Promise.all(['/', '/c/some-id', '/operate'].map((path) => read(path)));
    for (const answer of answers) expect(await textOf(answer)).not.toBe(html);
  });
});

describe('our own pages', () => {
  const documentOf = async (uiDirectory: string | undefined, publicUrl?: string) => {
    const web = mkdtempSync(join(tmpdir(), 'web-'));
    writeFileSync(join(web, 'app.js'), 'a');
    writeFileSync(join(web, 'styles.css'), 'b{}');
    mkdirSync(join(web, 'parts'));
    const other = await TestGateway.start({
      webDirectory: web,
      ...(uiDirectory === undefined ? {} : { uiDirectory }),
      ...(publicUrl === undefined ? {} : { publicUrl }),
    });
    try {
      const session = await sessionCookie(other.url, other.alice);
      const of = (path: string) =>
        other.open('GET', path, { key: null, headers: { cookie: session, accept: 'text/html' } });
      const chat = await of('/conversations/some%20id');
      return {
        home: await textOf(await of('/')),
        chat: [chat.statusCode, chat.headers.location],
        page: (await of('/settings')).statusCode,
      };
    } finally {
      await other.stop();
      rmSync(web, { recursive: true });
    }
  };

  it('link to the web UI where it is', async () => {
    expect((await documentOf(folder)).home).toContain(' data-has-ui></div>');
  });

  it.each([
    ['has none', () => undefined],
    ['is a folder without it', () => join(folder, 'assets')],
  ])('take the place of its chat where the build %s', async (_case, directory) => {
    const { home, chat, page } = await documentOf(directory());
    expect(home).toContain('<div id="app" data-parts="');
    expect(home).not.toContain('data-has-ui');
    expect(chat).toEqual([303, '../c/some%20id']);
    expect(page).toBe(404);
  });
});

it.each([
  ['0.0.0.0', '127.0.0.1'],
  ['::', '127.0.0.1'],
  ['::1', '[::1]'],
])(
  'has addresses that a browser connects to, where the service listens on %s',
  async (host, own) => {
    const other = await TestGateway.start({ host });
    try {
      const url = `http://${own}:${other.port}`;
      const document = await fetch(`${url}/openapi.json`);
      expect(await document.json()).toMatchObject({ servers: [{ url }] });
    } finally {
      await other.stop();
    }
  },
);

it('is not served below a path, where its files are not found', async () => {
  const other = await TestGateway.start({
    uiDirectory: folder,
    publicUrl: 'https://example.com/agents',
  });
  try {
    const { statusCode } = await other.open('GET', '/assets/a.js', { key: null });
    expect(statusCode).toBe(404);
  } finally {
    await other.stop();
  }
});

it('gets connections to sandboxes on origins of their own permitted, by policy and by these', async () => {
  const other = await TestGateway.start({
    uiDirectory: folder,
    publicUrl: 'https://agents.example',
    sandboxUrlTemplate: 'https://{sandbox}-{port}.boxes.example:8443',
  });
  try {
    const { headers } = await fetch(`${other.url}/login`, {
      method: 'POST',
      body: new URLSearchParams({ api_key: other.alice }),
      headers: { origin: 'https://agents.example', 'sec-fetch-site': 'same-origin' },
      redirect: 'manual',
    });
    const session = headers.getSetCookie()[0]?.split(';')[0] ?? '';
    const document = await other.open('GET', '/conversations/a', {
      key: null,
      headers: { cookie: session, accept: 'text/html' },
    });
    expect(document.headers['content-security-policy']).toContain(
      "connect-src 'self' https://agents.example wss://agents.example https://*.boxes.example:8443 wss://*.boxes.example:8443;",
    );
    const preflight = (origin: string) =>
      other.open('OPTIONS', '/api/conversations/a', {
        key: null,
        headers: {
          host: 'sbx-1-agent-server.boxes.example:8443',
          origin,
          'access-control-request-method': 'GET',
        },
      });
    const own = await preflight('https://agents.example');
    expect([own.statusCode, own.headers['access-control-allow-origin']]).toEqual([
      204,
      'https://agents.example',
    ]);
    const foreign = await preflight('https://evil.example');
    expect(foreign.headers).not.toHaveProperty('access-control-allow-origin');
  } finally {
    await other.stop();
  }
});
